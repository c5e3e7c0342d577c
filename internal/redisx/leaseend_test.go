package redisx_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

func TestAResetEndsALease(t *testing.T) {
	s, server := frozen(t)
	c := leased(claimOf("k", core.PerDay(100)))
	warm(t, s, c)
	server.SetTime(start.Add(time.Second))
	if err := s.Reset(context.Background(), pairsOf(c)); err != nil {
		t.Fatal(err)
	}
	if r, ok := isLocal(s, c); ok {
		t.Errorf("decided from a lease from before: %+v", r)
	}
	if r := take(t, s, c)[0]; r.Remaining != 99 {
		t.Errorf("after a reset: %+v, want 99 remaining", r)
	}
}

func TestABanEndsALease(t *testing.T) {
	s, _ := frozen(t)
	c := leased(claimOf("k", core.PerDay(100)))
	warm(t, s, c)
	if err := s.Settle(context.Background(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Ban: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if r := take(t, s, c)[0]; r.Allowed || r.RetryAfter != time.Hour {
		t.Errorf("banned: %+v", r)
	}
}

// A request that a lease has admitted is settled without a call while its portion lives, and in the store after that.
func TestARefundGoesBackIntoTheLease(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := leased(claimOf("k", core.PerDay(1000)))
	used := warm(t, s, c)
	c.Cost = 2
	r, ok := isLocal(s, c)
	for !ok {
		take(t, s, c)
		granted(t, s)
		used += 2
		r, ok = isLocal(s, c)
	}
	granted(t, s)
	before := calls(t, client, "fcall")
	back := settled([]core.Claim{c}, r)
	back[0].Final = 1
	if err := s.Settle(context.Background(), back); err != nil {
		t.Fatal(err)
	}
	peek := c
	peek.Cost, peek.Peek = 1, true
	if r, ok := isLocal(s, peek); !ok || r[0].Remaining != 1000-used-1 {
		t.Errorf("after a refund of 1 of 2: %+v, %v, want %d remaining", r, ok, 1000-used-1)
	}
	if n := calls(t, client, "fcall"); n != before {
		t.Errorf("%d calls for a refund", n-before)
	}
	back[0].Final, back[0].Cost = 5, 1
	if err := s.Settle(context.Background(), back); err != nil || calls(t, client, "fcall") != before+1 {
		t.Errorf("a further charge: %v, and %d calls", err, calls(t, client, "fcall")-before)
	}
	other := redisx.New(client, options)
	if r := take(t, other, claimOf("k", core.PerDay(1000)))[0]; r.Remaining > 1000-used-1-4-1 {
		t.Errorf("after a further charge of 4: %+v", r)
	}
}

func TestARefundAfterTheEndOfALeaseGoesToTheStore(t *testing.T) {
	s, _ := frozen(t)
	c := claimOf("k", core.PerDay(100))
	c.Lease = 500 * time.Millisecond
	var r []core.Result
	used, ok := 0, false
	for ; !ok; used++ {
		if r, ok = isLocal(s, c); !ok {
			take(t, s, c)
			granted(t, s)
		}
	}
	leasesEnd(t, s)
	if err := s.Settle(context.Background(), settled([]core.Claim{c}, r)); err != nil {
		t.Fatal(err)
	}
	peek := c
	peek.Peek = true
	if r := take(t, s, peek)[0]; r.Remaining != 100-used+1 && r.Remaining != 100-used {
		t.Errorf("%d remain of 100 after %d requests and a refund", r.Remaining, used)
	}
}

// Unused requests are given back when a lease ends: the store then counts exactly the requests that were served.
func TestWhatIsNotUsedIsGivenBackInTheEnd(t *testing.T) {
	for _, limits := range []string{"100000/d", "100000/d;fixed-window", "90000/d, 100000/d;fixed-window"} {
		t.Run(limits, func(t *testing.T) {
			redistest.Undisturbed(t, func() error { return givesBackAll(t, core.MustParseLimits(limits)) })
		})
	}
}

// givesBackAll has callers share some keys by leases that end soon. It returns an error if more is charged in the end than was served.
func givesBackAll(t *testing.T, limits []core.Limit) error {
	s, _ := frozen(t)
	var served atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				c := claimOf(fmt.Sprint((i+g)%5), limits...)
				c.Lease = time.Duration(5+5*(i%2)) * time.Millisecond // and now and then it is another one
				if i%15 > 0 {
					c.Lease = 5 * time.Millisecond
				}
				take(t, s, c)
				served.Add(1)
			}
		})
	}
	wg.Wait()
	leasesEnd(t, s)
	used := 0
	for i := range 5 {
		peek := claimOf(fmt.Sprint(i), limits...)
		peek.Peek = true
		r := take(t, s, peek)[0]
		used += r.Limit.Capacity() - r.Remaining
	}
	if used != int(served.Load()) {
		return fmt.Errorf("%d requests are charged, %d were served; %+v", used, served.Load(), s.LeaseStats())
	}
	return nil
}

// Callers that compete for the last requests get them all and no more, because nothing stays in a lease that is too small.
func TestAllOfALimitIsServedAndNoMore(t *testing.T) {
	for name, client := range map[string]redis.UniversalClient{
		"redis": redistest.Start(t).Client(t), "cluster": redistest.StartCluster(t).Client(t),
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Undisturbed(t, func() error {
				flush(t, client)
				if n := serveAllOf(t, redisx.New(client, options), redisx.New(client, options)); n < 699 || n > 700 {
					return fmt.Errorf("%d requests were served of 700", n)
				}
				return nil
			})
		})
	}
}

// serveAllOf has callers of two stores use up a limit of 700, and returns how many requests were served.
func serveAllOf(t *testing.T, s, other *redisx.Store) int64 {
	var served atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			from := s
			if g%4 == 0 {
				from = other
			}
			c := claimOf("k", core.MustParseLimits("700/365d")...)
			c.Lease = time.Second
			for denied := 0; denied < 20; {
				if allowed(take(t, from, c)) {
					served.Add(1)
				} else {
					denied++
				}
			}
		})
	}
	wg.Wait()
	for range 2 { // what one gives back the other may get
		for _, from := range []*redisx.Store{s, other} {
			leasesEnd(t, from)
			for allowed(take(t, from, claimOf("k", core.MustParseLimits("700/365d")...))) {
				served.Add(1)
			}
		}
	}
	return served.Load()
}
