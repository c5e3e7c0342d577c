package redisx

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/lease"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

// A lending compares a store and the model while processes are charged ahead and return.
type lending struct {
	t       *testing.T
	server  *miniredis.Miniredis
	store   *Store
	model   oracle.Model
	claim   core.Claim
	company []core.Claim // claims that are not leased
	now     time.Time
	unused  []oracle.Portion
	random  *rand.Rand
	least   int // cost of a request
	most    int // microseconds pass between requests
	back    int // and so many less
}

func newLending(t *testing.T, seed uint64, limits string, company ...core.Claim) *lending {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	l := &lending{
		t: t, server: server, store: New(client, Options{Prefix: "p"}), random: rand.New(rand.NewPCG(seed, 7)), company: company, most: 30_000,
		claim: core.Claim{Key: "k", Limits: core.MustParseLimits(limits)}, now: time.Unix(1_800_000_000, 0),
	}
	l.pass(0)
	return l
}

func (l *lending) pass(d time.Duration) {
	l.now = l.now.Add(d)
	l.server.SetTime(l.now)
}

// some returns a part of an unused portion, which is no longer unused.
func (l *lending) some() lease.Portion {
	if len(l.unused) == 0 {
		return lease.Portion{}
	}
	i := l.random.IntN(len(l.unused))
	p := &l.unused[i]
	b := lease.Portion{At: p.At, Count: 1 + l.random.Int64N(p.Count)}
	if p.Count -= b.Count; p.Count == 0 || l.random.IntN(2) == 0 { // or else the rest has been used
		l.unused = append(l.unused[:i], l.unused[i+1:]...)
	}
	return b
}

// call returns b to the store, asks for cost and then charges more ahead, in one call.
func (l *lending) call(cost int, want int64, b lease.Portions) {
	now, c := l.now.UnixMicro(), l.claim
	l.model.Ahead(now, c, 0) // a request names its rate first
	for _, one := range b {
		if c.Cost = int(one.Count); one.Count > 0 {
			l.model.Refund(now, one.At, []core.Claim{c})
		}
	}
	granted := int64(0)
	if c.Cost = cost; cost == 0 || l.model.Admit(now, c) {
		granted = l.model.Ahead(now, c, want)
	}
	c.Cost = max(cost, 1)
	j := leasedPair(l.t, l.store, want, b, cost == 0, append([]core.Claim{c}, l.company...)...)
	if got := j.request.leases[0].granted; got != granted {
		l.t.Errorf("%d were charged ahead, want %d", got, granted)
	}
	if granted > 0 {
		l.unused = append(l.unused, oracle.Portion{At: now, Count: granted})
	}
}

// compare returns what remains by the store and by the model, and reports whether they agree in all.
func (l *lending) compare() (got, want core.Result, same bool) {
	c := l.claim
	c.Cost, c.Peek = 1, true
	results, err := l.store.Take(context.Background(), []core.Claim{c}, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for i, want := range l.model.Take(l.now.UnixMicro(), []core.Claim{c}) {
		if results[i] != want {
			return results[i], want, false
		}
	}
	return results[0], results[0], true
}

// step passes some time and makes a random call.
func (l *lending) step(most int) {
	if l.random.IntN(3) > 0 {
		l.pass(time.Duration(l.random.IntN(l.most)-l.back) * time.Microsecond)
	}
	var b lease.Portions
	for i := range b {
		if l.random.IntN(2) == 0 || len(l.unused) > most {
			b[i] = l.some()
		}
	}
	l.call(max(l.least, l.random.IntN(2)*l.random.IntN(6)), int64(l.random.IntN(2)*l.random.IntN(20)), b)
}

// bystander is a claim that makes a request not plain.
var bystander = core.Claim{Key: "x", Limits: core.MustParseLimits("10/m"), Peek: true}

// play makes random calls with the one limits or the other.
func (l *lending) play(one, other string) {
	l.t.Helper()
	for i := range 60 {
		l.claim.Limits = core.MustParseLimits([]string{one, other}[l.random.IntN(2)])
		l.step(8)
		if got, want, same := l.compare(); !same || l.t.Failed() {
			l.t.Fatalf("%s, step %d, with %d others:\n got %+v\nwant %+v", one, i, len(l.company), got, want)
		}
	}
}

// A pair that holds something marks its bucket, which keeps its lows all the same.
func TestLowsOfABucketWithHolds(t *testing.T) {
	l := newLending(t, 1, "10/s;burst=100")
	hold := l.claim
	hold.Cost, hold.Hold = 5, true
	if _, err := l.store.Take(context.Background(), []core.Claim{hold}, nil); err != nil {
		t.Fatal(err)
	}
	l.model.Take(l.now.UnixMicro(), []core.Claim{hold})
	for range 4 {
		l.pass(30 * time.Millisecond)
		l.call(0, 8, lease.Portions{})
	}
	for len(l.unused) > 0 {
		l.pass(30 * time.Millisecond)
		l.call(0, 0, lease.Portions{l.some()})
		if got, want, same := l.compare(); !same {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}

// lendMany charges ahead n times and then refunds everything. It returns how many requests stay charged.
func lendMany(t *testing.T, n int) (less int) {
	l := newLending(t, 1, "100/s;burst=5000")
	for range n {
		l.pass(time.Millisecond)
		l.call(0, 10, lease.Portions{})
	}
	for len(l.unused) > 0 && !t.Failed() {
		l.pass(time.Duration(l.random.IntN(3000)) * time.Microsecond)
		l.call(0, 0, lease.Portions{l.some()})
		got, want, _ := l.compare()
		if got.Remaining > want.Remaining {
			t.Fatalf("%d remain, want at most %d", got.Remaining, want.Remaining)
		}
		less = max(less, want.Remaining-got.Remaining)
	}
	return less
}

// leasedPair decides claims, of which the first is leased and perhaps free.
func leasedPair(t *testing.T, s *Store, want int64, b lease.Portions, free bool, claims ...core.Claim) *job {
	r, err := s.decider.layout.newTake(claims)
	if err != nil {
		t.Fatal(err)
	}
	if free {
		r.free(0)
	}
	r.lease(0, want, b)
	j := &anyKeys.jobsOf(r, s.decider.layout)[0]
	s.mustRun(t, j)
	return j
}

// TestLeasesAreReturnedExactly checks that what was charged ahead and is returned leaves a bucket as if it had never
// been charged.
func TestLeasesAreReturnedExactly(t *testing.T) {
	testpass.Thorough(t)
	for _, limits := range []string{"300/s", "3000/s;burst=50", "40/s, 1000/h", "90000000/30d"} {
		for _, company := range [][]core.Claim{nil, {bystander}} {
			l := newLending(t, 1, limits, company...)
			l.play(limits, limits)
		}
	}
}

// TestTwoTiersReturnExactly checks buckets that are asked at two rates, or in two ticks. A request of cost 0 may name its rate
// without a trace.
func TestTwoTiersReturnExactly(t *testing.T) {
	testpass.Thorough(t)
	for _, tiers := range [][2]string{{"300/s", "70/s;burst=400"}, {"1000000000/30d", "1000000000/30d;burst=1000"}} {
		l := newLending(t, 1, tiers[0], bystander)
		l.least = 1
		l.play(tiers[0], tiers[1])
	}
}

// TestLeasesWhileTheClockStepsBack checks instants that are not in the order of the charges, in ticks of 1 µs and of more.
func TestLeasesWhileTheClockStepsBack(t *testing.T) {
	testpass.Sequential(t)
	for limits, most := range map[string]int{"300/s": 3000, "1000000/80000h": 3000, "1000000000/30d": 300_000} {
		l := newLending(t, 1, limits)
		l.most, l.back = most, most/3
		l.play(limits, limits)
	}
}

// TestClockStepsBackBeyondTwoLeases steps back within a tick of 1 s, in which nothing drains.
func TestClockStepsBackBeyondTwoLeases(t *testing.T) {
	l := newLending(t, 1, "1000000000/30d")
	l.call(2000, 0, lease.Portions{})
	for _, d := range []time.Duration{100, 50, -100} {
		l.pass(d * time.Millisecond)
		l.call(0, 1000, lease.Portions{}) // more than drains meanwhile, so that no later charge caps the lows
	}
	for l.pass(1500 * time.Millisecond); len(l.unused) > 0; l.pass(time.Millisecond) {
		l.call(1, 0, lease.Portions{l.some()})
		if got, want, same := l.compare(); !same {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}

// TestTooManyLeasesReturnLess checks that some returned requests may stay charged if a bucket has more leases than lows,
// and that the bucket never credits too many.
func TestTooManyLeasesReturnLess(t *testing.T) {
	testpass.Sequential(t)
	if less := lendMany(t, 16); less > 0 {
		t.Errorf("16 leases: %d requests stay charged, want none", less)
	}
	if less := lendMany(t, 30); less == 0 || less > 50 {
		t.Errorf("30 leases: %d requests stay charged, want some, but few", less)
	}
}

// TestStoredLowsThatMakeNoSense checks that lows that do not rise, or are too large, say nothing, and that a state of
// another size counts as used up.
func TestStoredLowsThatMakeNoSense(t *testing.T) {
	for name, row := range map[string]struct {
		words     []uint64 // of the record, behind its kind
		remaining int
	}{
		"none":             {nil, 280},
		"good":             {[]uint64{2, 1, 5, 2, 20e6}, 290},
		"the same level":   {[]uint64{2, 1, 20e6, 2, 20e6}, 280},
		"the same instant": {[]uint64{2, 2, 5, 2, 20e6}, 280},
		"no instant":       {[]uint64{1, 0, 20e6}, 280},
		"no level":         {[]uint64{2, 1, 0, 2, 20e6}, 280},
		"too large":        {[]uint64{2, 1, 20e6, 2, 1<<53 + 2}, 280},
		"half of a pair":   {[]uint64{1, 1}, 0},
		"too many":         {append([]uint64{17}, make([]uint64, 34)...), 0},
	} {
		for _, company := range [][]core.Claim{nil, {bystander}} {
			l := newLending(t, 1, "300/s", company...)
			l.call(20, 0, lease.Portions{})
			key := l.server.Keys()[0]
			state := []byte(l.server.HGet(key, "s"))
			if row.words != nil {
				state = binary.LittleEndian.AppendUint64(state, 1) // the kind of lows
			}
			for _, n := range row.words {
				state = binary.LittleEndian.AppendUint64(state, n)
			}
			l.server.HSet(key, "s", string(state))
			c := l.claim
			leasedPair(t, l.store, 0, lease.Portions{{At: l.now.UnixMicro() - 100_000, Count: 10}}, true, append([]core.Claim{c}, company...)...)
			if got, _, _ := l.compare(); got.Remaining != row.remaining {
				t.Errorf("%s, with %d others: %d remain, want %d", name, len(company), got.Remaining, row.remaining)
			}
		}
	}
}

// A refund of what has drained returns nothing, and changes nothing for the next one.
func TestARefundOfWhatHasDrainedChangesNothing(t *testing.T) {
	for _, company := range [][]core.Claim{nil, {{Key: "x", Limits: core.MustParseLimits("10/m"), Peek: true}}} {
		server := miniredis.RunT(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
		t.Cleanup(func() { client.Close() })
		s, c := New(client, Options{Prefix: "p"}), core.Claim{Key: "k", Limits: core.MustParseLimits("60/m")}
		at := func(second, cost int, b lease.Portions) *job {
			server.SetTime(time.Unix(1_800_000_000+int64(second), 0))
			c.Cost = cost
			return leasedPair(t, s, 0, b, cost == 0, append([]core.Claim{c}, company...)...)
		}
		first := at(0, 1, lease.Portions{}).at
		busy := at(10, 5, lease.Portions{}).at
		at(11, 5, lease.Portions{})
		if j := at(14, 0, lease.Portions{{At: first, Count: 1}, {At: busy, Count: 2}}); j.usages[0].Remaining != 55 {
			t.Errorf("%d remain, want 55", j.usages[0].Remaining)
		}
	}
}

// A bucket that drains 3 requests per second has a third of a microsecond left of one after 333,333 µs.
func TestABucketIsEmptyOnceAllHasDrained(t *testing.T) {
	for after, reset := range map[time.Duration]int64{333_333: 1_000_001, 333_334: 1_000_000} {
		server := miniredis.RunT(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
		t.Cleanup(func() { client.Close() })
		s, c := New(client, Options{Prefix: "p"}), core.Claim{Key: "k", Limits: core.MustParseLimits("3/s;burst=9"), Cost: 1}
		begun := time.Unix(1_800_000_000, 0)
		server.SetTime(begun)
		leasedPair(t, s, 0, lease.Portions{}, false, c)
		server.SetTime(begun.Add(after * time.Microsecond))
		c.Cost = 3
		if j := leasedPair(t, s, 0, lease.Portions{}, false, c); j.usages[0].Reset != reset {
			t.Errorf("after %d µs a cost of 3 drains in %d µs, want %d", after, j.usages[0].Reset, reset)
		}
	}
}
