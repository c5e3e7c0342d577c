package redisx

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// A settlement is a core.Settlement in the terms of lua/settle.lua.
type settlement struct {
	at, cost, final, ban int64
	hold, renew, grant   bool
	waits                bool // requests of the claim may wait; then ban is the wait
}

func newSettlement(of *core.Settlement) settlement {
	s := settlement{
		cost: min(int64(max(of.Cost, 1)), algorithm.MaxExact), final: min(int64(of.Final), algorithm.MaxExact), hold: of.Held, renew: of.Renew,
	}
	if !of.At.IsZero() {
		s.at = min(max(of.At.UnixMicro(), 0), algorithm.MaxExact)
	}
	s.ban = min(of.Ban.Microseconds(), algorithm.MaxExact)
	switch {
	case of.Grant != 0:
		s = settlement{grant: true, cost: int64(max(of.Grant, 0)), final: int64(max(-of.Grant, 0))}
	case of.MaxWait > 0 && of.Ban == 0:
		s.waits, s.ban = true, of.Wait.Microseconds()
	}
	return s
}

// claimOf returns the claim that s settles.
func claimOf(s *core.Settlement) *core.Claim {
	return &core.Claim{Rule: s.Rule, Key: s.Key, Limits: s.Limits, Cost: s.Cost, DryRun: s.DryRun, Hold: s.Held, Lease: s.Lease, MaxWait: s.MaxWait}
}

// changes reports whether the settlement changes anything.
func (s *settlement) changes() bool { return s.hold || s.ban > 0 && !s.waits || s.final != s.cost }

// Settle implements core.Store.
func (s *Store) Settle(ctx context.Context, settlements []core.Settlement) error {
	var pairs, banned []core.Pair
	for i := range settlements {
		st := &settlements[i]
		if err := st.Validate(); err != nil {
			return err
		}
		pairs = append(pairs, core.Pair{Rule: st.Rule, Key: st.Key})
		if st.Ban > 0 || st.Grant != 0 {
			banned = append(banned, pairs[i])
		}
	}
	own := settlements
	if t := s.leases.Load(); t != nil {
		own = t.Refund(settlements)
		t.End(banned)
		defer t.End(banned)
	}
	r := s.layout.newSettle(own)
	if len(r.asks) == 0 {
		return nil
	}
	defer s.forget(pairs)
	jobs, err := s.settle(ctx, r)
	if err == nil {
		renewed(settlements, jobs)
		r.release()
	}
	return err
}

// settle executes r, the request of a Settle.
func (s *Store) settle(ctx context.Context, r *request) ([]job, error) {
	jobs := s.split(r, routing(s.routing.Load()))
	if len(jobs) == 1 && len(jobs[0].keys) == 1 {
		return jobs, s.do(ctx, &jobs[0], false)
	}
	late := func(err error) error { return s.late(r.batch.Load(), err) }
	_, err := within(ctx, s, late, func(ctx context.Context) (struct{}, error) {
		each(jobs, func(j *job) { s.settleJob(ctx, j) })
		return struct{}{}, firstError(jobs)
	})
	return jobs, err
}

// renewed sets At of the settlements whose holds were renewed.
func renewed(settlements []core.Settlement, jobs []job) {
	for i := range jobs {
		for n, at := range jobs[i].moved {
			if at > 0 {
				settlements[jobs[i].claims[n]].At = time.UnixMicro(at)
			}
		}
	}
}

// newSettle returns the request of a Settle. Its plan does not contain costs, so that most requests have the same plan.
func (l *layout) newSettle(settlements []core.Settlement) *request {
	r := requests.Get().(*request)
	r.clock = l.wall
	for i := range settlements {
		s := &settlements[i]
		st := newSettlement(s)
		r.settlements = append(r.settlements, st)
		if st.changes() {
			r.addSettled(l.key(s.Rule, s.Key), claimOf(s), i)
		}
	}
	return r
}

// addSettled adds a claim whose settlement r has.
func (r *request) addSettled(stored string, c *core.Claim, i int) {
	first := len(r.asks)
	r.addClaim(stored, c, i)
	for n := first; n < len(r.asks); n++ {
		r.asks[n].cost, r.asks[n].asked, r.asks[n].hold = 0, 0, false
	}
}

// settleJob does j, key by key if its slot is migrating.
func (s *Store) settleJob(ctx context.Context, j *job) {
	if j.err = s.do(ctx, j, true); len(j.keys) == 1 || !hasCode(j.err, "TRYAGAIN") && !hasCode(j.err, "CROSSSLOT") {
		return
	}
	var jobs []job
	for _, key := range j.keys {
		one := job{request: j.request, route: key}
		for _, i := range j.asks {
			if j.request.keys[j.request.asks[i].key] == key {
				one.add(i, key)
			}
		}
		one.prepare(nil)
		jobs = append(jobs, one)
	}
	each(jobs, func(j *job) { j.err = s.do(ctx, j, true) })
	j.claims, j.moved = nil, nil
	if j.err = firstError(jobs); j.err != nil {
		return // some of its claims may be settled, so do not report that none was
	}
	for i := range jobs {
		j.claims, j.moved = append(j.claims, jobs[i].claims...), append(j.moved, jobs[i].moved...)
	}
}

// giveBack gives back what the claims of a job for which charged reports true were charged, and returns what that
// leaves. If requests may wait, each limit counts as a claim, because each has a turn of its own.
func (s *Store) giveBack(ctx context.Context, j *job, charged func(claim int) bool) *job {
	r := &request{keys: j.request.keys, asks: slices.Clone(j.request.asks)}
	last := r.asks[len(r.asks)-1].claim
	r.settlements = make([]settlement, last+1+len(r.asks))
	for n, i := range j.asks {
		a := &r.asks[i]
		gives := charged(a.claim) && !a.peek
		if a.maxWait > 0 {
			a.claim = last + 1 + n
		}
		if gives {
			r.settlements[a.claim] = settlement{at: j.at, cost: a.cost, hold: a.hold, waits: a.maxWait > 0, ban: j.usages[n].wait}
		}
	}
	back := &job{request: r, route: j.route, keys: j.keys, asks: j.asks}
	back.prepare(nil)
	back.err = s.do(ctx, back, true)
	return back
}

// addNumbers sets claims and numbers of the job of a Settle: see lua/settle.lua.
func (j *job) addNumbers() {
	r := j.request
	if len(r.settlements) == 0 {
		return
	}
	var buf [5 * 8 * 4]byte
	b := buf[:0]
	j.claims = make([]int, 0, len(j.asks))
	j.quiet = r.asks[j.asks[0]].asked == 0
	for _, i := range j.asks {
		claim := r.asks[i].claim
		if n := len(j.claims); n > 0 && j.claims[n-1] == claim {
			continue
		}
		j.claims = append(j.claims, claim)
		b = r.settlements[claim].appendNumbers(b)
	}
	j.numbers = string(b)
}

func (s *settlement) appendNumbers(b []byte) []byte {
	flags := int64(0)
	if s.hold {
		flags |= 1
	}
	if s.renew {
		flags |= 2
	}
	if s.grant {
		flags |= 4
	}
	if s.waits {
		flags = 8
	}
	for _, n := range [...]int64{s.at, s.cost, s.final, s.ban, flags} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}
