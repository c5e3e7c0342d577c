package oracle

import (
	"math/rand/v2"

	"github.com/spillgate/spillgate/core"
)

// leasedLimits are the limits that schedules lease.
var leasedLimits = []string{
	"100/s", "20/h", "1000/s;burst=50", "5/s", "50/s;fixed-window", "200/m", "100/s, 200/10s;fixed-window", "30/s;burst=300, 400/h",
	"1000000/h;burst=40", "7/2s;fixed-window",
}

// rates are how fast the clocks of processes run, in thousandths.
var rates = []int64{1000, 999, 1001, 900, 1100}

// costs are the costs of requests.
var costs = []int64{1, 1, 1, 1, 2, 3, 7, 20}

// A schedule is a byte string that determines a run. Reading past its end returns zeros.
type schedule struct {
	bytes []byte
	next  int
}

// RandomSchedule returns the schedule of a seed. Different streams have different schedules.
func RandomSchedule(stream, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, stream))
	text := make([]byte, 8+r.IntN(400))
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	return text
}

func (s *schedule) done() bool { return s.next >= len(s.bytes) }

// pick returns a number below n.
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

// step runs the next action of a schedule.
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
