package redisx

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/lease"
)

// leasesFor returns the leases of s, or nil if none can concern claims.
func (s *Store) leasesFor(claims []core.Claim) *lease.Table {
	t := s.leases.Load()
	if t != nil && t.HasKeys() {
		return t
	}
	for i := range claims {
		if claims[i].Lease > 0 {
			if t == nil {
				s.leases.CompareAndSwap(nil, lease.New(s))
			}
			return s.leases.Load()
		}
	}
	return nil
}

// LeaseStats describes the leases of s.
func (s *Store) LeaseStats() core.LeaseStats {
	if t := s.leases.Load(); t != nil {
		return t.Stats()
	}
	return core.LeaseStats{}
}

// Lend implements lease.Store.
func (s *Store) Lend(ctx context.Context, claims []core.Claim, loans []lease.Loan, dst []core.Result) ([]core.Result, bool, error) {
	switch {
	case len(claims) > 0:
		return s.ask(ctx, claims, loans, dst)
	case loans[0].Want > 0:
		errs := make([]error, len(loans))
		each(upTo(len(loans)), func(i *int) { errs[*i] = s.chargeAhead(ctx, &loans[*i]) })
		return dst, false, errors.Join(errs...)
	}
	return dst, false, s.takeBack(ctx, loans)
}

// chargeAhead charges ahead the requests that l wants, and takes back l.Unused in the same call.
func (s *Store) chargeAhead(ctx context.Context, l *lease.Loan) error {
	r := &request{clock: s.layout.wall}
	r.addClaim(s.layout.key(l.Pair.Rule, l.Pair.Key), &core.Claim{Limits: l.Limits}, 0)
	r.free(0)
	r.lease(0, l.Want, l.Unused)
	jobs := s.split(r, routing(s.routing.Load()))
	j := &jobs[0] // of one key
	err := s.do(ctx, j, true)
	if l.Return = outcomeOf(jobs, err); err != nil {
		return err
	}
	l.At, l.Granted = j.at, r.leases[0].granted
	l.Left = make([]algorithm.Usage, len(j.usages))
	for i := range j.usages {
		l.Left[i] = j.usages[i].Usage
	}
	return nil
}

// takeBack takes back the unused requests of loans.
func (s *Store) takeBack(ctx context.Context, loans []lease.Loan) error {
	r := &request{clock: s.layout.wall}
	var of []*lease.Loan // by settlement
	for i := range loans {
		l := &loans[i]
		for _, p := range l.Unused {
			if p.Count > 0 {
				r.settlements = append(r.settlements, settlement{at: p.At, cost: p.Count})
				r.addSettled(s.layout.key(l.Pair.Rule, l.Pair.Key), &core.Claim{Limits: l.Limits}, len(of))
				of = append(of, l)
			}
		}
	}
	jobs, err := s.settle(ctx, r)
	switch {
	case len(jobs) == 1 && len(jobs[0].keys) == 1:
		jobs[0].err = err
	case err != nil && ctx.Err() != nil:
		return err // jobs may be in flight
	}
	for i := range jobs {
		for _, claim := range jobs[i].claims {
			of[claim].Return = outcomeOf(jobs[i:i+1], jobs[i].err)
		}
	}
	return err
}

// outcomeOf returns the outcome for the unused requests that jobs should have given back.
func outcomeOf(jobs []job, err error) lease.Outcome {
	switch {
	case err == nil:
		return lease.Returned
	case len(jobs) == 1 && (jobs[0].unsent || isReply(err)):
		return lease.NotReturned
	}
	return lease.Unknown
}

// A leased is a claim of a Take that charges requests ahead, or gives such requests back: see lua/take.lua.
type leased struct {
	claim   int
	want    int64
	unused  lease.Portions
	granted int64 // what was charged ahead
}

// addLeases sets leases and numbers of the job of a Take.
func (j *job) addLeases() {
	r := j.request
	if len(r.leases) == 0 {
		return
	}
	j.leases = j.leases[:0]
	var b []byte
	for n := range r.leases {
		if l := &r.leases[n]; j.asksFor(l.claim) {
			j.leases = append(j.leases, n)
			b = l.appendNumbers(b)
		}
	}
	j.numbers = string(b)
}

// asksFor reports whether an ask of j is of a claim.
func (j *job) asksFor(claim int) bool {
	for _, i := range j.asks {
		if j.request.asks[i].claim == claim {
			return true
		}
	}
	return false
}

func (l *leased) appendNumbers(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(l.want))
	for _, p := range l.unused {
		b = binary.LittleEndian.AppendUint64(b, uint64(p.At))
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Count))
	}
	return b
}

// readLeases cuts the grants from the end of a reply, and reports whether they are valid. It clears the unused
// requests, which have been given back, so that they are not given back again if the job is sent once more.
func (j *job) readLeases(reply *[]int64) bool {
	n := len(*reply) - len(j.leases)
	if n < 0 {
		return false
	}
	for i, granted := range (*reply)[n:] {
		l := &j.request.leases[j.leases[i]]
		if granted < 0 || granted > l.want {
			return false
		}
		l.granted, l.unused = granted, lease.Portions{}
	}
	*reply = (*reply)[:n]
	return true
}

// lease makes a claim of r leased. Call it in the order of the claims.
func (r *request) lease(claim int, want int64, unused lease.Portions) {
	r.leases = append(r.leases, leased{claim: claim, want: want, unused: unused})
	for i := range r.asks {
		if r.asks[i].claim == claim {
			r.asks[i].leased = true
		}
	}
}

// free sets the cost of a claim of r to 0.
func (r *request) free(claim int) {
	for i := range r.asks {
		if r.asks[i].claim == claim {
			r.asks[i].cost, r.asks[i].asked = 0, 0
		}
	}
}
