package redisx

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
)

// grantTimeout is how long a grant may take as long as no Take has had a deadline.
const grantTimeout = time.Second

// A grant is a call that charges requests ahead for one key. There is one at a time for each key.
type grant struct {
	ctx  context.Context // ends when there is no use in waiting for the grant any more
	done chan struct{}
}

// wait waits for g until ctx is done or g is late.
func (g *grant) wait(ctx context.Context) {
	select {
	case <-g.done:
	case <-g.ctx.Done():
	case <-ctx.Done():
	}
}

// waitForAll waits for grants, late ones too, until ctx is done.
func waitForAll(ctx context.Context, grants []*grant) {
	for _, g := range grants {
		select {
		case <-g.done:
		case <-ctx.Done():
		}
	}
}

// fetchIfLow asks for a grant for e if little is left. The caller has locked the shard of e, and advanced e.
func (s *Store) fetchIfLow(t *leaseTable, hash uint64, e *leaseEntry, now int64) {
	if e.isLow(now, e.terms.length) {
		s.fetch(t, hash, e, 0)
	}
}

// fetch asks for a grant for e, unless one is in flight or the last one was of nothing. waiting is the cost of the request that
// waits for it. The caller has locked the shard of e, and advanced e.
func (s *Store) fetch(t *leaseTable, hash uint64, e *leaseEntry, waiting int64) {
	if e.grantInFlight() != nil || e.pause > 0 {
		return
	}
	timeout := time.Duration(t.timeout.Load())
	if timeout <= 0 {
		timeout = grantTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	g := &grant{ctx, make(chan struct{})}
	e.ensureRare().grant = g
	f := fetch{s, t, hash, e, e.key, e.terms, e.want(waiting), e.takeUnused(), timeout}
	go func() {
		defer cancel()
		defer close(g.done)
		f.run()
	}()
}

// A fetch is a grant as its goroutine sees it.
type fetch struct {
	store *Store
	table *leaseTable
	hash  uint64
	entry *leaseEntry
	key   string
	terms *terms
	want  int64
	backs backs // given back in the same call

	timeout time.Duration
}

// run has the whole timeout, however long its goroutine has waited for a CPU: else that would count as a failure of the store.
func (f *fetch) run() {
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	sent := f.table.now()
	r := new(request)
	r.addClaim(f.key, &core.Claim{Limits: f.terms.limits}, 0)
	r.free(0)
	r.lease(0, f.want, f.backs)
	j := &f.store.split(r, routing(f.store.routing.Load()))[0]
	err := f.store.do(ctx, j, true)

	s, e := f.table.shard(f.hash), f.entry
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := e.rare.answer
	e.rare.grant, e.rare.answer = nil, nil
	e.dropRare()
	switch {
	case err != nil:
		if j.unsent || isReply(err) { // else the store may have given it back
			f.giveBack(f.backs)
		}
		e.pause = pauseSpans
	case e.terms != f.terms:
		f.giveBack(backs{{j.at, r.leases[0].granted}})
		f.table.returned.Add(uint64(f.backs.sum()))
	default:
		now := f.table.now()
		e.advance(now, f.terms.length)
		e.credit(now, j.at, sent+f.terms.length, r.leases[0].granted)
		e.setUsages(j.usages, now)
		if answer != nil {
			e.hear(answer, now)
		}
		f.table.returned.Add(uint64(f.backs.sum()))
	}
}

// giveBack has b given back by a later call. The caller has locked the shard.
func (f *fetch) giveBack(b backs) {
	if f.entry.terms != f.terms {
		f.table.giveBack(f.key, f.terms, b)
		return
	}
	for _, one := range b {
		f.entry.giveBack(one.at, one.n)
	}
}
