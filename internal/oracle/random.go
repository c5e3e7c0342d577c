package oracle

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Options say what random timelines may contain.
type Options struct {
	Back bool // the clock may go back
	Lend bool // requests may be charged ahead
}

// Random returns the timeline of a seed: takes, peeks, holds, settlements, refunds, renewals, grants, bans and resets of a few pairs, under
// limits of all kinds and their tiers. A timeline in which the clock goes back neither holds, grants nor gives back anything: until the
// clock is where it was, a store may have dropped what an instant before now still needs.
func Random(seed uint64, o Options) []Step {
	g := generator{rand.New(rand.NewPCG(seed, 0)), o, cast{}}
	g.cast = g.newCast()
	steps := make([]Step, 1+g.IntN(g.most))
	for i := range steps {
		steps[i] = g.step(i)
	}
	return steps
}

type generator struct {
	*rand.Rand
	Options
	cast
}

// A cast is what the steps of one timeline choose from.
type cast struct {
	rules, keys []string
	families    [][]core.Limit // the tiers of each limit
	verbs       []string
	most        int // steps
	back        bool
	short       bool // waits are short compared with a period
	waiting     bool // most claims may wait
	holding     bool // most claims are held
}

var (
	allVerbs   = []string{"take", "take", "take", "take", "take", "take", "take", "settle", "settle", "settle", "renew", "reset", "ban", "grant"}
	holdVerbs  = []string{"take", "take", "take", "settle", "settle", "renew", "pass"}
	grantVerbs = []string{"take", "grant", "grant", "grant"}
	backVerbs  = []string{"take", "take", "take", "take", "take", "ban"}
	giveVerbs  = []string{"take", "take", "take", "take", "take", "settle", "settle", "settle", "ban"}
)

func (g *generator) newCast() cast {
	one := cast{rules: []string{"a"}, keys: []string{"x"}, verbs: allVerbs, most: 25, families: [][]core.Limit{g.family(3)}}
	if g.Back && g.IntN(5) == 0 {
		one.back, one.verbs, one.families = true, backVerbs, [][]core.Limit{g.family(3)}
		return one
	}
	switch g.IntN(9) {
	case 0: // many siblings
		one.families, one.short = [][]core.Limit{g.siblings(12)}, true
	case 1: // many entries
		one.families, one.short, one.most = [][]core.Limit{g.sliding(core.SlidingLog), g.sliding(core.SlidingWindow)}, true, 80
	case 2: // what a bucket gives back
		one.families, one.verbs, one.short, one.waiting = [][]core.Limit{g.buckets(2)}, giveVerbs, true, true
	case 3:
		one.families, one.verbs, one.holding = append(one.families, g.family(2)), holdVerbs, true
	case 4:
		one.families, one.verbs, one.most = [][]core.Limit{g.windows()}, grantVerbs, 90
	case 5:
		one.families, one.waiting = [][]core.Limit{g.buckets(3)}, true
	case 6:
		one.families = append(one.families, g.family(3), g.family(3))
	default:
		return cast{rules: []string{"a", "", "b"}, keys: []string{"x", "y"}, verbs: allVerbs, most: 25, families: [][]core.Limit{g.family(3), g.family(2)}}
	}
	return one
}

func of[E any](g *generator, some ...E) E { return some[g.IntN(len(some))] }

var periods = []time.Duration{
	time.Millisecond, 3 * time.Millisecond, time.Second, 7*time.Second + time.Microsecond, time.Minute, time.Hour, 24 * time.Hour,
	100 * 24 * time.Hour, 3650*24*time.Hour - time.Microsecond, 3650 * 24 * time.Hour,
}

func (g *generator) period() time.Duration {
	if g.IntN(2) == 0 {
		return of(g, periods...)
	}
	return time.Duration(1000+g.Int64N(of[int64](g, 5e3, 3e6, 1e8, 1e11, 3e14))) * time.Microsecond
}

// family returns the tiers of one limit: up to n limits that share an algorithm and a period.
func (g *generator) family(n int) []core.Limit {
	l := core.Limit{Algorithm: core.Algorithm(max(0, g.IntN(int(core.InFlight)+2)-1)), Period: g.period()} // a bucket twice as often as others
	switch {
	case l.Algorithm == core.InFlight:
		l.Period = 0
	case l.Algorithm == core.FixedWindow && g.IntN(2) == 0:
		l = g.calendar()
	}
	return g.tiers(l, n)
}

func (g *generator) calendar() core.Limit {
	zone := of(g, "UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu")
	return of(g, core.PerDay(1).In(zone), core.PerWeek(1).In(zone).From(1+g.IntN(7)), core.PerMonth(1).In(zone).From(of(g, 1, 15, 29, 30, 31)), core.PerYear(1).In(zone))
}

func (g *generator) siblings(n int) []core.Limit {
	return g.tiers(core.Limit{Algorithm: of(g, core.TokenBucket, core.SlidingWindow), Period: g.period()}, n)
}

func (g *generator) sliding(a core.Algorithm) []core.Limit {
	return g.tiers(core.Limit{Algorithm: a, Period: of(g, time.Second, 3*time.Second, time.Hour)}, 2)
}

func (g *generator) windows() []core.Limit {
	return g.tiers(core.Limit{Algorithm: core.FixedWindow + core.Algorithm(g.IntN(int(core.InFlight-core.FixedWindow))), Period: g.period()}, 2)
}

// buckets returns tiers in which ticks of 1 µs, 1 ms and 1 s occur.
func (g *generator) buckets(n int) (tiers []core.Limit) {
	l := of(g, core.PerSecond(5), core.PerSecond(1).WithBurst(3), core.Every(97, 3*time.Second).WithBurst(40), core.Every(10, 3*time.Hour), core.PerDay(1_000_000),
		core.Every(999_983, 3650*24*time.Hour-time.Millisecond), core.Every(1_000_000, 9_007_199_254*time.Microsecond))
	for range 1 + g.IntN(n) {
		tiers = append(tiers, l)
		l.Rate = max(1, of(g, l.Rate/2, l.Rate/10, l.Rate*2))
	}
	return tiers
}

func (g *generator) tiers(l core.Limit, n int) (tiers []core.Limit) {
	for range 1 + g.IntN(n) {
		for {
			if t := g.tier(l); t.Validate() == nil {
				tiers = append(tiers, t)
				break
			}
		}
	}
	return tiers
}

func (g *generator) tier(l core.Limit) core.Limit {
	largest := of(g, 5, 10, 100, 10_000, 1_000_000)
	l.Rate = of(g, g.IntN(largest+1), largest/2+g.IntN(largest/2+1))
	switch {
	case l.Calendar.Unit != 0:
	case l.Algorithm == core.TokenBucket:
		if l.Burst = of(g, 0, g.IntN(largest+1)); g.IntN(4) == 0 {
			l.Ban = g.upTo(2 * l.Period)
		}
	case l.Algorithm == core.SlidingWindow:
		l.Buckets = of(g, 0, 2, 3, 4, 5, 6, 7, 12, 20, 59, 60)
	case l.Algorithm == core.SlidingLog:
		l.Rate = min(l.Rate, 1000)
	case l.Algorithm == core.InFlight:
		l.Rate = min(l.Rate, 10)
	}
	return l
}

func (g *generator) upTo(d time.Duration) time.Duration {
	return time.Duration(g.Int64N(d.Microseconds()+1)) * time.Microsecond
}

func (g *generator) step(i int) Step {
	s := Step{Verb: of(g, g.verbs...)}
	g.setWait(&s)
	switch s.Verb {
	case "ban":
		s.Pair, s.Ban = g.pair(), g.upTo(of(g, time.Millisecond, time.Minute, time.Hour))+time.Microsecond
	case "reset":
		s.Pair = g.pair()
	case "grant":
		s.Claims, s.Grant = []core.Claim{g.claim()}, of(g, 1, 1, 2, 3, 50, -1, -2, -3, 1_000_000_000, -1_000_000_000)
	case "pass": // holds end
		s.Verb, s.Until, s.After = "take", "", of(g, 5999999*time.Microsecond, 12*time.Second, 59999999*time.Microsecond, time.Minute, 66*time.Second, 72*time.Second)
	case "settle", "renew":
		if i == 0 {
			s.Verb = "take"
			break
		}
		s.Of = max(0, i-5) + g.IntN(min(i, 5))
		if s.Verb == "settle" && g.IntN(2) == 0 {
			s.Finals = []int{g.cost(g.families[0][0]), g.cost(g.families[0][0])}
		}
	}
	if s.Verb != "take" {
		return s
	}
	for range of(g, 1, 1, 1, 2, 3) {
		s.Claims = append(s.Claims, g.claim())
	}
	if c := &s.Claims[0]; g.Lend && g.IntN(4) == 0 && len(c.Limits) > 0 && !slices.ContainsFunc(c.Limits, cannotLend) {
		s.Verb, s.Want, s.Claims = "lend", int64(1+g.IntN(20)), []core.Claim{{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Cost: 1}}
	}
	return s
}

func cannotLend(l core.Limit) bool {
	return l.Calendar.Unit != 0 || l.Algorithm != core.TokenBucket && l.Algorithm != core.FixedWindow
}

// setWait sets how long to wait before s: often until something changes by itself.
func (g *generator) setWait(s *Step) {
	l := of(g, of(g, g.families...)...)
	period := l.Period
	switch {
	case l.Calendar.Unit != 0:
		period = 24 * time.Hour * of[time.Duration](g, 1, 7, 31, 366)
	case period == 0:
		period = time.Minute
	}
	each := max(time.Microsecond, period/time.Duration(max(1, l.Rate)))
	switch {
	case g.back && g.IntN(3) == 0:
		s.After = -g.upTo(period / 8)
	case g.short && g.IntN(8) > 0:
		s.After = of(g, 0, g.upTo(3*each), g.upTo(period/20))
	default:
		s.After = of(g, 0, 0, g.upTo(3*time.Millisecond), g.upTo(3*each), g.upTo(period*5/4), each.Truncate(time.Microsecond), period)
		if s.Until = of(g, "", "", "", "retry", "refill", "reset"); s.Until != "" {
			s.After, s.Result = of(g, 0, 0, -time.Microsecond), g.IntN(4)
		}
	}
}

func (g *generator) pair() core.Pair {
	return core.Pair{Rule: of(g, g.rules...), Key: of(g, g.keys...)}
}

func (g *generator) claim() core.Claim {
	c := core.Claim{Rule: of(g, g.rules...), Key: of(g, g.keys...), Peek: g.IntN(8) == 0, DryRun: g.IntN(8) == 0, Hold: g.IntN(4) == 0}
	c.Hold = (c.Hold || g.holding && g.IntN(2) == 0) && !g.waiting && !g.back
	for i, family := range g.families {
		l := of(g, family...)
		if known := slices.ContainsFunc(c.Limits, func(other core.Limit) bool { return stateOf(other) == stateOf(l) }); !known && (i == 0 || g.IntN(2) == 0) {
			c.Limits = append(c.Limits, l)
		}
	}
	c.Cost = g.cost(c.Limits[0])
	if g.waiting || g.IntN(3) == 0 {
		c.MaxWait = min(time.Hour, g.upTo(2*c.Limits[0].Period))
		if c.Validate() != nil {
			c.MaxWait = 0
		}
	}
	return c
}

func (g *generator) cost(l core.Limit) int {
	most := l.Capacity()
	return of(g, 1, 1, 1, 2, 3, 0, 1+g.IntN(most+1), 1+g.IntN(most/4+1), max(1, most/2), max(1, most), most+1, 2*most+1, math.MaxInt/2+1)
}

var leasedLimits = []string{
	"100/s", "20/h", "1000/s;burst=50", "5/s", "50/s;fixed-window", "200/m", "100/s, 200/10s;fixed-window", "30/s;burst=300, 400/h",
	"1000000/h;burst=40", "7/2s;fixed-window",
}

// rates are how fast the clocks of processes run, in thousandths.
var rates = []int64{1000, 999, 1001, 900, 1100}

var costs = []int64{1, 1, 1, 1, 2, 3, 7, 20}

// A schedule is a byte string that determines a run. Reading past its end returns zeros.
type schedule struct {
	bytes []byte
	next  int
}

func RandomSchedule(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	text := make([]byte, 8+r.IntN(400))
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	return text
}

func (s *schedule) done() bool { return s.next >= len(s.bytes) }

func (s *schedule) pick(n int) int {
	if s.done() {
		return 0
	}
	b := s.bytes[s.next]
	s.next++
	return int(b) % n
}

func (s *schedule) of(some []int64) int64 { return some[s.pick(len(some))] }

// RunLeases simulates several processes that lease a key, each through a Holder made by open. It returns an error if they
// break the contract of leases. The same text always gives the same run.
func RunLeases(text []byte, open func(length int64) Holder) (Summary, error) {
	s := schedule{bytes: text}
	f := &fleet{open: open}
	f.now = begin(1_700_000_000*second, 600*second)
	f.ledger.lost, f.ledger.found = make(map[core.Limit]int64), make(map[string]error)
	f.limits = core.MustParseLimits(leasedLimits[s.pick(len(leasedLimits))])
	f.length = s.of([]int64{1_000, 10_000, 100_000, 1_000_000, 10_000_000})
	f.delay = s.of([]int64{0, 100, 1_000, 10_000})
	f.deadline = s.of([]int64{50_000, 2_000_000})
	for i := range 1 + s.pick(4) {
		f.restart(i, s.of(rates), f.skewed(&s))
	}
	for !s.done() {
		f.step(&s)
	}
	f.stalled = 0
	f.loseCalls, f.loseReply = 0, 0
	f.advance(2*f.deadline + 6*f.longest())
	return f.Summary, f.check()
}

func (f *fleet) step(s *schedule) {
	action := s.pick(20)
	i := s.pick(len(f.processes))
	p := f.processes[i]
	switch action {
	case 0, 1, 2, 3, 4:
		p.ask(s.of(costs), false)
	case 5, 6, 7:
		n, gap := 1+s.pick(40), s.of([]int64{0, f.length / 100, f.length / 10})
		for range n {
			p.ask(1, false)
			f.advance(gap)
		}
	case 8, 9:
		for range 1 + s.pick(8) {
			p.ask(s.of(costs), true)
		}
	case 10, 11:
		f.advance(f.length * int64(s.pick(64)) / 32)
	case 12, 13:
		f.advance(int64(s.pick(256)) * int64(s.pick(256)))
	case 14:
		f.advance(f.delay)
	case 15:
		f.restart(i, s.of(rates), f.skewed(s))
	case 16:
		f.stalled = f.now + f.length*int64(s.pick(64))/32
	case 17:
		f.loseCalls, f.loseReply = s.pick(2), s.pick(2)
	case 18:
		f.delay = s.of([]int64{0, 100, 1_000, 10_000})
	case 19:
		f.refund(s.pick(16))
	}
}

// skewed returns the reading of a clock that is up to a second fast or slow.
func (f *fleet) skewed(s *schedule) int64 { return f.now + int64(s.pick(256)-128)*7_777 }

// ask begins a request.
func (p *process) ask(cost int64, other bool) {
	r := &request{process: p, cost: cost, other: other, denied: other && p.fleet.Asked%2 == 0}
	p.decide(r, false)
}

// refund reverses an admitted request: the last request, or the one that was admitted ago requests earlier.
func (f *fleet) refund(ago int) {
	i := len(f.ledger.admitted) - 1 - ago
	if i < 0 {
		return
	}
	r := f.ledger.admitted[i]
	if r.refunded || r.process.dead || !r.done || len(r.taken) == 0 { // a faulty Holder may take what was never charged
		return
	}
	r.refunded = true
	f.Refunds++
	f.ledger.putBack(r.taken)
	q := r.process.holder.Refund(r.process.clock(), r.known, r.cost)
	back := returnedPortion{q, nil}
	for _, s := range r.taken {
		n := min(s.n, q.Count)
		if q.Count -= n; n > 0 {
			back.of = append(back.of, share{s.of, n})
		}
		s.of.direct = s.of.direct && n == s.n
	}
	if back.Count > 0 {
		back.begin()
		r.process.send(&call{returns: []returnedPortion{back}})
	}
}

// Ahead charges requests ahead at now and returns how many: want, but at most half of what remains. During a ban nothing remains.
func (m *Model) Ahead(now int64, c core.Claim, want int64) int64 {
	asks := m.open(now, []core.Claim{c})
	for _, a := range asks {
		free := a.free(now, now)
		want = min(want, atLeastZero(free.Sub(free, a.held()))/2)
		if a.ban(now) > 0 {
			want = 0
		}
	}
	if want > 0 {
		chargeAll(asks, now, want)
	}
	return want
}

// Admit decides and charges one claim like Take, but returns no results.
func (m *Model) Admit(now int64, c core.Claim) bool {
	asks := m.open(now, []core.Claim{c})
	for _, a := range asks {
		if a.decide(now) > 0 {
			return false
		}
	}
	chargeAll(asks, now, int64(max(c.Cost, 1)))
	return true
}
