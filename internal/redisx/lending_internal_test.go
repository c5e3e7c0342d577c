package redisx

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// A lending compares a store and the model while processes are charged ahead and give back.
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
func (l *lending) some() back {
	if len(l.unused) == 0 {
		return back{}
	}
	i := l.random.IntN(len(l.unused))
	p := &l.unused[i]
	b := back{p.At, 1 + l.random.Int64N(p.Count)}
	if p.Count -= b.n; p.Count == 0 || l.random.IntN(2) == 0 { // or else the rest has been used
		l.unused = append(l.unused[:i], l.unused[i+1:]...)
	}
	return b
}

// call gives back, asks for cost and then for more ahead, in one call to the store.
func (l *lending) call(cost int, want int64, b backs) {
	now, c := l.now.UnixMicro(), l.claim
	l.model.Ahead(now, c, 0) // a request names its rate first
	for _, one := range b {
		if c.Cost = int(one.n); one.n > 0 {
			l.model.Refund(now, one.at, []core.Claim{c})
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
	var b backs
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

// lendMany charges n times ahead, and then gives all back. It returns how many requests stay charged.
func lendMany(t *testing.T, n int) (less int) {
	l := newLending(t, 1, "100/s;burst=5000")
	for range n {
		l.pass(time.Millisecond)
		l.call(0, 10, backs{})
	}
	for len(l.unused) > 0 && !t.Failed() {
		l.pass(time.Duration(l.random.IntN(3000)) * time.Microsecond)
		l.call(0, 0, backs{l.some()})
		got, want, _ := l.compare()
		if got.Remaining > want.Remaining {
			t.Fatalf("%d remain, want at most %d", got.Remaining, want.Remaining)
		}
		less = max(less, want.Remaining-got.Remaining)
	}
	return less
}

// leasedPair decides claims, of which the first is leased, unless want is negative, and perhaps free.
func leasedPair(t *testing.T, s *Store, want int64, b backs, free bool, claims ...core.Claim) *job {
	r, err := s.layout.newTake(claims)
	if err != nil {
		t.Fatal(err)
	}
	if free {
		r.free(0)
	}
	if want >= 0 {
		r.lease(0, want, b)
	}
	j := &s.split(r, anyKeys)[0]
	s.mustRun(t, j)
	return j
}
