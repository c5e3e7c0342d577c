package core

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// waiters counts the requests of a limiter that wait for their turn: all of them, and those of each rule and key and of
// each peer. One key or peer may take a quarter of the places.
type waiters struct {
	most int64
	all  atomic.Int64 // changes only while mu is held

	mu sync.Mutex
	by map[Pair]int64 // a Pair without a Rule is a peer
}

// share returns how many requests of one rule and key, or of one peer, may wait.
func (w *waiters) share() int64 { return (w.most + 3) / 4 }

// restrict marks the claims that must not wait, because no further request of r's peer may, or of the claim's rule and key.
func (w *waiters) restrict(claims []asked, r *http.Request) {
	if w.all.Load() < w.share() {
		return
	}
	peer := peerOf(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	none := w.all.Load() >= w.most || w.by[peer] >= w.share()
	for i := range claims {
		a := &claims[i]
		a.now = !a.dryRun && (none || w.by[Pair{a.rule.Name, a.key}] >= w.share())
	}
}

// enter counts the request of c, which has to wait, and extends the deadlines of its server. It reports false if too many
// requests wait or the deadlines cannot be extended.
func (l *Limiter) enter(ctx context.Context, r *http.Request, c *receipt) bool {
	pairs := c.waitsFor(peerOf(r))
	if !l.waiting.add(pairs) {
		return false
	}
	c.more().waits = pairs
	if r == nil || timeoutOf(ctx, r) == 0 || !extend(ctx, 0) || extend(ctx, c.waitFrom(time.Time{})) {
		return true
	}
	l.leave(c)
	return false
}

// waitsFor returns the pairs that the request of c has to wait for, and its peer if that is known.
func (c *receipt) waitsFor(peer Pair) (pairs []Pair) {
	if peer != (Pair{}) {
		pairs = append(pairs, peer)
	}
	claims := c.claims()
	for i, own := range c.each {
		a := &claims[i]
		pair := Pair{a.rule.Name, a.key}
		if !a.dryRun && slices.ContainsFunc(own, func(r Result) bool { return r.Wait > 0 }) && !slices.Contains(pairs, pair) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// add counts a request that waits for pairs, unless too many do.
func (w *waiters) add(pairs []Pair) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all.Load() >= w.most || slices.ContainsFunc(pairs, func(p Pair) bool { return w.by[p] >= w.share() }) {
		return false
	}
	w.all.Add(1)
	for _, p := range pairs {
		w.by[p]++
	}
	return true
}

// leave ends the wait of the request of c, if it waits.
func (l *Limiter) leave(c *receipt) {
	if !c.waits() {
		return
	}
	w := &l.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Add(-1)
	for _, p := range c.extra.waits {
		if w.by[p]--; w.by[p] == 0 {
			delete(w.by, p)
		}
	}
	c.extra.waits = nil
}

// peerOf returns the peer of r as a Pair: an address or an IPv6 network of 64 bits. A private address is usually a proxy, whose clients
// must not take each other's places, so each of its connections is a peer. peerOf returns a zero Pair for a peer without an
// address, such as a Unix socket, and if r is nil.
func peerOf(r *http.Request) Pair {
	if r == nil {
		return Pair{}
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	switch ip := at.Addr().Unmap(); {
	case err != nil:
		return Pair{}
	case isPrivate(ip):
		return Pair{Key: r.RemoteAddr}
	case ip.Is6():
		network, _ := ip.Prefix(64)
		return Pair{Key: network.String()}
	default:
		return Pair{Key: ip.String()}
	}
}
