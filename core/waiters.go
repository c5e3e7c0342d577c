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

// waiters counts the places of requests that wait for their turn, or that may have to once the store has decided them: in all, by
// rule and key, and by peer. One key or peer may take a quarter of the places.
type waiters struct {
	most int64
	all  atomic.Int64 // requests that wait

	mu       sync.Mutex
	answered chan struct{}  // closed when the store has answered a request with a reserved place; nil if none waits for that
	taken    map[Pair]int64 // a Pair without a Rule is a peer, and Pair{} stands for all requests
	asking   map[Pair]int64 // how many of the taken places are reserved
}

// reserve takes a place of each pair for a request that may have to wait, before the store books its turn: a turn cannot always
// be given back. It reports false if a pair has no place left. Unless giveUp is nil, it first waits for the store's answers to
// requests that have reserved the last places, because they may not need them. It gives up in time, because others may take these
// places again and again.
func (w *waiters) reserve(pairs []Pair, giveUp <-chan time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	share := (w.most-1)/4 + 1 // of one rule and key, or of one peer
	isFull := func(p Pair) bool { return w.taken[p] >= share && (p != Pair{} || w.taken[p] >= w.most) }
	isLost := func(p Pair) bool { return isFull(p) && w.asking[p] == 0 }
	for slices.ContainsFunc(pairs, isFull) {
		if giveUp == nil || slices.ContainsFunc(pairs, isLost) {
			return false
		}
		if w.answered == nil {
			w.answered = make(chan struct{})
		}
		answered := w.answered
		w.mu.Unlock()
		select {
		case <-answered:
		case <-giveUp:
			giveUp = nil
		}
		w.mu.Lock()
	}
	count(w.taken, pairs, 1)
	count(w.asking, pairs, 1)
	return true
}

// answer ends the reservation of pairs. The request waits for some of them or, if waits is empty, does not wait.
func (w *waiters) answer(pairs, waits []Pair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	count(w.asking, pairs, -1)
	count(w.taken, pairs, -1)
	count(w.taken, waits, 1)
	w.all.Add(int64(min(len(waits), 1)))
	if w.answered != nil {
		close(w.answered)
		w.answered = nil
	}
}

func count(places map[Pair]int64, pairs []Pair, n int64) {
	for _, p := range pairs {
		if places[p] += n; places[p] == 0 {
			delete(places, p)
		}
	}
}

// enter counts the request of c, which has reserved pairs and has to wait, and extends the deadlines of its server. It reports
// false if they cannot be extended.
func (l *Limiter) enter(ctx context.Context, r *http.Request, c *receipt, pairs []Pair) bool {
	c.more().waits = c.waitsFor(pairs)
	l.waiting.answer(pairs, c.extra.waits)
	if r == nil || !extend(ctx, 0) || extend(ctx, c.waitFrom(time.Time{})) {
		return true
	}
	l.leave(c)
	return false
}

// mayWaitFor returns the pairs that a request with these claims may have to wait for: all requests, its peer if that is known, and
// the rules and keys.
func mayWaitFor(claims []asked, r *http.Request) []Pair {
	pairs := append(make([]Pair, 0, 3), Pair{})
	if peer := peerOf(r); peer != (Pair{}) {
		pairs = append(pairs, peer)
	}
	for i := range claims {
		a := &claims[i]
		if pair := (Pair{a.rule.Name, a.key}); a.rule.MaxWait > 0 && !a.dryRun && !slices.Contains(pairs, pair) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// waitsFor returns the pairs that the request of c has to wait for: not the keys of rules under which it fits now.
func (c *receipt) waitsFor(pairs []Pair) []Pair {
	fits := func(p Pair) bool {
		claims, fits := c.claims(), p.Rule != ""
		for i, own := range c.each {
			if (Pair{claims[i].rule.Name, claims[i].key}) == p {
				fits = fits && !slices.ContainsFunc(own, func(r Result) bool { return r.Wait > 0 })
			}
		}
		return fits
	}
	return slices.DeleteFunc(slices.Clone(pairs), fits)
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
	count(w.taken, c.extra.waits, -1)
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
	default:
		network, _ := ip.Prefix(min(ip.BitLen(), 64))
		return Pair{Key: network.String()}
	}
}
