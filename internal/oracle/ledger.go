package oracle

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A ledger records what the store of a fleet has charged, what the fleet has admitted, and where leases broke their contract.
type ledger struct {
	charges  []*charge // as the store made them, the oldest first
	admitted []*request
	ticks    int64
	found    map[string]error     // violations seen during the run, the first of each kind
	lost     map[core.Limit]int64 // the most that refunds may have left charged, in units
}

// A charge is n requests that the store has charged at an instant for a process.
type charge struct {
	process  *process
	at, n    int64
	used     int64 // of n: by requests that were not denied
	transit  int64 // of n: in a call that returns it
	returned int64 // of n: returned to the store
	known    int64 // the tick at which its process learned how much of it is unused, or 0
	direct   bool  // charged for a request, not ahead, and not put into a lease by its refund
	stranded bool  // a crash or a lost call leaves the rest of it charged
}

// A share is n requests out of a charge.
type share struct {
	of *charge
	n  int64
}

// fail records a violation.
func (b *ledger) fail(format string, args ...any) {
	if b.found[format] == nil {
		b.found[format] = fmt.Errorf(format, args...)
	}
}

func (b *ledger) charge(p *process, q Portion) *charge {
	c := &charge{process: p, at: q.At, n: q.Count, stranded: p.dead}
	b.charges = append(b.charges, c)
	return c
}

// find returns the charges that a portion of a process comes from, and adds them to the counter (used or transit) that
// count selects. If the charges of the portion's instant do not suffice, find takes other charges of the process,
// preferably charges that the process certainly knows of.
func (b *ledger) find(p *process, q Portion, count func(*charge) *int64) (shares []share) {
	for _, fits := range []func(*charge) bool{
		func(c *charge) bool { return c.at == q.At }, func(c *charge) bool { return !c.stranded }, func(*charge) bool { return true },
	} {
		for _, c := range b.charges {
			if c.process != p || c.direct || !fits(c) {
				continue
			}
			if n := min(q.Count, c.n-c.used-c.transit-c.returned); n > 0 {
				shares = append(shares, share{c, n})
				*count(c) += n
				q.Count -= n
			}
		}
	}
	if q.Count > 0 {
		b.fail("a process had %d requests that were not charged for it", q.Count)
	}
	return shares
}

func (c *charge) asUsed() *int64      { return &c.used }
func (c *charge) asInTransit() *int64 { return &c.transit }

// putBack counts shares as unused again.
func (b *ledger) putBack(shares []share) {
	for _, s := range shares {
		s.of.used -= s.n
		s.of.known = b.tick()
	}
}

// tick returns a larger number each time, so that what happens at one instant has an order.
func (b *ledger) tick() int64 {
	b.ticks++
	return b.ticks
}

// prepareReturns prepares portions of a process for a call that returns them.
func (p *process) prepareReturns(some []Portion) (all []returnedPortion) {
	for _, q := range some {
		all = append(all, returnedPortion{q, p.fleet.ledger.find(p, q, (*charge).asInTransit)})
		p.fleet.Returned += q.Count
	}
	return all
}

// begin counts r as in transit.
func (r *returnedPortion) begin() {
	for _, s := range r.of {
		s.of.transit += s.n
	}
}

// refundReturned refunds a portion in the store, and checks that only what may have drained stays charged.
func (f *fleet) refundReturned(r returnedPortion) {
	before := make([]int64, len(f.limits))
	for i, l := range f.limits {
		before[i] = f.excess(l)
	}
	f.store.Refund(f.now, r.At, []core.Claim{f.claim(int(r.Count))})
	for _, s := range r.of {
		s.of.transit -= s.n
		s.of.returned += s.n
	}
	for i, l := range f.limits {
		may, after := f.mayLose(l, r), f.excess(l)
		if after < 0 {
			f.ledger.fail("limit %v: a process returned %d units more than still counted", l, -after)
		}
		if after > max(before[i], 0)+may {
			f.ledger.fail("limit %v: %d units of a portion of %d stay charged, want at most %d", l, after-before[i], r.Count, may)
		}
		f.ledger.lost[l] += may
	}
}

// mayLose returns how many units a refund may leave charged because they may have drained.
func (f *fleet) mayLose(l core.Limit, r returnedPortion) int64 {
	if l.Algorithm == core.FixedWindow {
		return r.outside(l)
	}
	if !slices.ContainsFunc(f.ledger.charges, func(c *charge) bool { return c.n > 0 && c.at > r.At }) {
		return 0
	}
	return min(r.Count*unit(l), int64(l.Rate)*(f.now-r.At))
}

// outside returns how much of r was charged in windows other than the one to which it is returned.
func (r *returnedPortion) outside(l core.Limit) (n int64) {
	for _, s := range r.of {
		if windowOf(l, s.of.at) != windowOf(l, r.At) {
			n += s.n
		}
	}
	return n
}

// excess returns by how much the store's count of l exceeds the count of a store in which what was returned was never charged.
func (f *fleet) excess(l core.Limit) int64 {
	return f.counted(l) - f.ledger.level(l, f.now, func(c *charge) int64 { return c.n - c.returned })
}

// counted returns what the store counts for l, in units.
func (f *fleet) counted(l core.Limit) int64 {
	p := f.store.pair(core.Pair{Rule: "leased", Key: "k"})
	return floor(times(p.state(stateOf(l)).used(l, f.now, f.now), unit(l)))
}

// unit returns how many units of l one request is. The number is chosen so that whole units drain in each microsecond.
func unit(l core.Limit) int64 {
	if l.Algorithm == core.FixedWindow {
		return 1
	}
	return l.Period.Microseconds()
}

// level returns how many units of l count at now, by the definition of l's algorithm. count returns the size of a charge.
func (b *ledger) level(l core.Limit, now int64, count func(*charge) int64) (level int64) {
	last := int64(0)
	for _, c := range b.charges {
		switch n := count(c); {
		case n == 0 || c.at > now:
		case l.Algorithm == core.FixedWindow:
			if windowOf(l, c.at) == windowOf(l, now) {
				level += n
			}
		default:
			level = max(0, level-int64(l.Rate)*(c.at-last)) + n*unit(l)
			last = c.at
		}
	}
	if l.Algorithm == core.FixedWindow {
		return level
	}
	return max(0, level-int64(l.Rate)*(now-last))
}

// strand marks the charges of a crashed process: what the process has not used stays charged.
func (b *ledger) strand(p *process) {
	for _, c := range b.charges {
		c.stranded = c.stranded || c.process == p
	}
}

func (b *ledger) admit(r *request) { b.admitted = append(b.admitted, r) }

// Settlement returns the Settlement that gives back what c was charged, or held, at an instant.
func Settlement(c core.Claim, at time.Time) core.Settlement {
	return core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: at, Cost: c.Cost, DryRun: c.DryRun, Held: c.Hold, Lease: c.Lease, MaxWait: c.MaxWait}
}

// each returns the settlements that give back a claim with these results: one for each limit if the claim may wait,
// because each limit has a wait of its own.
func each(c core.Claim, results []core.Result) (some []core.Settlement) {
	if c.MaxWait == 0 {
		return []core.Settlement{Settlement(c, results[0].At)}
	}
	for i, r := range results {
		s := Settlement(c, r.At)
		s.Limits, s.Wait = c.Limits[i:i+1], r.Wait
		some = append(some, s)
	}
	return some
}

// Settled returns the settlements that give back what claims with these results were charged. It leaves out peeks.
func Settled(claims []core.Claim, results []core.Result) (some []core.Settlement) {
	for _, c := range claims {
		if !c.Peek {
			some = append(some, each(c, results[:len(c.Limits)])...)
		}
		results = results[len(c.Limits):]
	}
	return some
}

// Allowed reports whether all results are allowed, so that all claims but peeks were charged.
func Allowed(results []core.Result) bool {
	return !slices.ContainsFunc(results, func(r core.Result) bool { return !r.Allowed })
}

// Charged returns the settlements that give back what a take with these results has charged.
func Charged(claims []core.Claim, results []core.Result) (some []core.Settlement) {
	for _, r := range results {
		if !r.Allowed && !r.DryRun {
			return nil
		}
	}
	for _, c := range claims {
		own := results[:len(c.Limits)]
		results = results[len(own):]
		if !c.Peek && Allowed(own) {
			some = append(some, each(c, own)...)
		}
	}
	return some
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func times(a *big.Rat, n int64) *big.Rat { return new(big.Rat).Mul(a, whole(n)) }

// floor returns the largest integer that is not above x, which must fit an int64 and must not be negative.
func floor(x *big.Rat) int64 { return new(big.Int).Quo(x.Num(), x.Denom()).Int64() }

// roundUp returns the least multiple of 1/n that is not below x, which must not be negative.
func roundUp(x *big.Rat, n int64) *big.Rat {
	units := times(x, n)
	up := new(big.Int).Add(units.Num(), units.Denom())
	up.Sub(up, big.NewInt(1)).Quo(up, units.Denom())
	return new(big.Rat).SetFrac(up, big.NewInt(n))
}

func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// begin returns the last multiple of step up to t, which is not before the epoch.
func begin(t, step int64) int64 { return t / step * step }
