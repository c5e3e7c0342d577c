package redisx

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxDenial bounds how long a denial is remembered: what another process resets or gives back counts after that.
const maxDenial = time.Second

// A denyCache remembers denied requests, by a key that denied them, until the first moment at which anything in their
// results changes. A request that asks for anything else, or of other limits, is not the same.
type denyCache struct {
	mu      sync.Mutex
	size    int
	denials map[string]denial
	seed    maphash.Seed
	turns   [256]uint64 // by hash of a key: how often it was forgotten
}

type denial struct {
	request  string        // its keys and the texts of its meters
	sent     time.Time     // the server may have decided as early,
	received time.Time     // or as late
	lasts    time.Duration // after sent
	at       time.Time     // by the server's clock
	results  []core.Result
}

func newDenyCache(size int) *denyCache {
	return &denyCache{size: size, denials: make(map[string]denial), seed: maphash.MakeSeed()}
}

// takeUnlessDenied is take for a store with a deny cache. Peeks and dry runs do not use it.
func (s *Store) takeUnlessDenied(ctx context.Context, r *request, claims []core.Claim, dst []core.Result) (time.Time, []core.Result, error) {
	for i := range r.meters {
		if r.meters[i].peek || r.meters[i].dryRun {
			return s.take(ctx, r, claims, dst)
		}
	}
	c, asked, sent := s.denied, r.text(), time.Now()
	if d, ok := c.find(r.keys, asked, sent); ok {
		at, results := d.appendTo(dst, sent)
		return at, results, nil
	}
	turn := c.turn(r.keys)
	at, results, err := s.take(ctx, r, claims, dst)
	if key := r.denier(results[len(dst):]); err == nil && key != "" {
		d := denial{request: asked, sent: sent, received: time.Now(), at: at, results: slices.Clone(results[len(dst):])}
		d.lasts = d.firstChange()
		c.add(key, turn, r.keys, d)
	}
	return at, results, err
}

// text returns what identifies r: its keys and all that is asked of them.
func (r *request) text() string {
	var buf [512]byte
	b := buf[:0]
	for _, key := range r.keys {
		b = append(append(b, key...), '\n')
	}
	for i := range r.meters {
		b = r.meters[i].appendText(b, i == 0 || r.meters[i].claim != r.meters[i-1].claim, r.meters[i].key)
	}
	return string(b)
}

// denier returns the key of the first result that is denied, or "".
func (r *request) denier(results []core.Result) string {
	for i := range results {
		if !results[i].Allowed {
			return r.keys[r.meters[i].key]
		}
	}
	return ""
}

// firstChange returns how long nothing in the results changes.
func (d *denial) firstChange() time.Duration {
	lasts := maxDenial
	for i := range d.results {
		for _, wait := range [...]time.Duration{d.results[i].RetryAfter, d.results[i].RefillAfter} {
			if wait > 0 {
				lasts = min(lasts, wait)
			}
		}
	}
	return lasts
}

// appendTo returns the server's clock and appends the results, as they are at now. No wait is stated too short.
func (d *denial) appendTo(dst []core.Result, now time.Time) (time.Time, []core.Result) {
	past := now.Sub(d.received).Truncate(time.Microsecond)
	for _, r := range d.results {
		for _, wait := range [...]*time.Duration{&r.RetryAfter, &r.RefillAfter, &r.ResetAfter} {
			if *wait > 0 {
				*wait -= past
			}
		}
		dst = append(dst, r)
	}
	return d.at.Add(past), dst
}

// find returns the denial of a request, if it is still one.
func (c *denyCache) find(keys []string, asked string, now time.Time) (denial, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		d, ok := c.denials[key]
		if ok && d.request == asked && now.Sub(d.sent) < d.lasts {
			return d, true
		}
	}
	return denial{}, false
}

// turn returns a number that changes when any of keys is forgotten.
func (c *denyCache) turn(keys []string) (sum uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turnLocked(keys)
}

func (c *denyCache) turnLocked(keys []string) (sum uint64) {
	for _, key := range keys {
		sum += c.turns[c.slot(key)]
	}
	return sum
}

func (c *denyCache) slot(key string) uint8 { return uint8(maphash.String(c.seed, key)) }

// add remembers d unless any of its keys was forgotten since turn. A full cache forgets another denial for it.
func (c *denyCache) add(key string, turn uint64, keys []string, d denial) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turnLocked(keys) != turn {
		return
	}
	if _, ok := c.denials[key]; !ok && len(c.denials) >= c.size {
		for other := range c.denials {
			delete(c.denials, other)
			break
		}
	}
	c.denials[key] = d
}

// forget drops what is known of keys.
func (s *Store) forget(keys []string) {
	c := s.denied
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		delete(c.denials, key)
		c.turns[c.slot(key)]++
	}
}
