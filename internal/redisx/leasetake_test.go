package redisx_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// leased returns c with a lease that does not end during a test.
func leased(c core.Claim) core.Claim {
	c.Lease = 10 * time.Second
	return c
}

// granted waits until no grant is in flight.
func granted(t *testing.T, s *redisx.Store) {
	t.Helper()
	redistest.Wait(t, "the grants", func() bool { return s.GrantsInFlight() == 0 })
}

// warm takes c until its lease is likely to have some requests left, and returns how often that was.
func warm(t *testing.T, s *redisx.Store, c core.Claim) int {
	t.Helper()
	for n := 1; ; n++ {
		if n > 100 {
			t.Fatal("nothing is leased")
		}
		if !allowed(take(t, s, c)) {
			t.Fatal("denied while warming up")
		}
		granted(t, s)
		if s.LeaseStats().Decisions > 4 {
			return n
		}
	}
}

// isLocal reports whether c is decided without a call.
func isLocal(s *redisx.Store, c ...core.Claim) ([]core.Result, bool) { return s.TakeLocal(c, nil) }

// Remaining is the capacity less the requests of this process, however many are leased, so the last request is exact.
func TestWhatRemainsCountsWhatIsLeased(t *testing.T) {
	for _, limits := range []string{"300/d", "300/d;fixed-window", "300/d, 400/h;fixed-window, 5000/365d"} {
		t.Run(limits, func(t *testing.T) {
			s, _ := frozen(t)
			c := leased(claimOf("k", core.MustParseLimits(limits)...))
			for i := range 300 {
				r := take(t, s, c)
				if !allowed(r) || r[0].Remaining != 299-i {
					t.Fatalf("request %d: %+v", i+1, r[0])
				}
				if len(r) > 1 && (r[1].Remaining != 399-i || r[2].Remaining != 4999-i) {
					t.Fatalf("request %d: %+v", i+1, r)
				}
				for _, one := range r {
					if one.RefillAfter <= 0 || one.ResetAfter < one.RefillAfter || one.RetryAfter != 0 || one.Rule != "rule" {
						t.Fatalf("request %d: %+v", i+1, one)
					}
				}
				if i%7 == 0 {
					granted(t, s)
				}
			}
			if r := take(t, s, c); allowed(r) || r[0].Remaining != 0 || r[0].RetryAfter <= 0 {
				t.Errorf("the request beyond the limit: %+v", r[0])
			}
			if n := s.LeaseStats().Decisions; n < 150 {
				t.Errorf("%d of 300 requests were decided from the lease, want most", n)
			}
		})
	}
}

func TestACallForAKeyThatIsAskedOnceIsTheOnlyOne(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for i := range 50 {
		take(t, s, leased(claimOf(fmt.Sprint(i), core.PerDay(100))))
	}
	granted(t, s)
	if n, keys := calls(t, client, "fcall"), s.LeaseStats().Keys; n > 51 || keys != 0 {
		t.Errorf("%d calls for 50 keys, %d of them leased", n, keys)
	}
}

func TestABusyKeyTakesFewCalls(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := leased(claimOf("k", core.PerSecond(1_000_000)))
	for range 10_000 {
		take(t, s, c)
	}
	granted(t, s)
	if n := calls(t, client, "fcall"); n > 200 {
		t.Errorf("%d calls for 10,000 requests", n)
	}
}

// All or nothing: requests taken from a lease are put back if the store denies the rest, or fails.
func TestALeaseTakesBackWhatTheRestDenies(t *testing.T) {
	s, server := frozen(t)
	a, b := leased(claimOf("a", core.PerDay(100))), claimOf("b", core.PerDay(1))
	used := warm(t, s, a)
	r := take(t, s, a, b)
	if used++; !allowed(r) || r[0].Remaining != 100-used || r[1].Remaining != 0 {
		t.Fatalf("got %+v", r)
	}
	decisions := s.LeaseStats().Decisions
	for range 3 {
		r = take(t, s, a, b)
		if !r[0].Allowed || r[0].Remaining != 100-used || r[1].Allowed {
			t.Errorf("denied: %+v", r)
		}
	}
	server.SetError("down")
	for range 3 {
		if _, err := s.Take(context.Background(), []core.Claim{a, b}, nil); err == nil {
			t.Error("a server that fails decided")
		}
	}
	server.SetError("")
	if n := s.LeaseStats().Decisions; n != decisions {
		t.Errorf("%d decisions from leases, want %d", n, decisions)
	}
	if r, ok := isLocal(s, a); !ok || r[0].Remaining != 99-used {
		t.Errorf("afterwards: %+v, %v, want %d remaining in the lease", r, ok, 99-used)
	}
}

func TestAPeekTakesNothingFromALease(t *testing.T) {
	s, _ := frozen(t)
	c := leased(claimOf("k", core.PerDay(100)))
	used := warm(t, s, c)
	peek := c
	peek.Peek = true
	for range 3 {
		if r, ok := isLocal(s, peek); !ok || !r[0].Allowed || r[0].Remaining != 100-used {
			t.Errorf("got %+v, %v", r, ok)
		}
	}
	peek.Cost = 100 - used
	if r := take(t, s, peek)[0]; !r.Allowed || r.Remaining != 100-used {
		t.Errorf("a peek for all that remains: %+v", r)
	}
	peek.Cost++
	if r := take(t, s, peek)[0]; r.Allowed || r.Remaining != 100-used {
		t.Errorf("a peek for more: %+v", r)
	}
}

// The call for a claim that cannot be leased gives back the lease of its key.
func TestWhatIsHeldDoesNotStandInTheWayOfOtherClaims(t *testing.T) {
	for name, change := range map[string]func(*core.Claim){
		"a dry run":    func(c *core.Claim) { c.DryRun = true },
		"a hold":       func(c *core.Claim) { c.Hold = true },
		"no lease":     func(c *core.Claim) { c.Lease = 0 },
		"other limits": func(c *core.Claim) { c.Limits = append(c.Limits, core.PerHour(1000)) },
		"other tiers":  func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d;sliding-log, 100/d") },
		"its own":      func(*core.Claim) {},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := frozen(t)
			c := leased(claimOf("k", core.PerDay(100)))
			used := warm(t, s, c)
			change(&c)
			c.Cost = 100 - used
			if r := take(t, s, c); !allowed(r) || r[0].Remaining != 0 && c.Limits[0].Algorithm == core.TokenBucket {
				t.Errorf("all that remains: %+v", r)
			}
		})
	}
	t.Run("twice in a request", func(t *testing.T) {
		s, _ := frozen(t)
		c := leased(claimOf("k", core.PerDay(100)))
		used := warm(t, s, c)
		other := c
		c.Cost = 99 - used
		if r := take(t, s, c, other); !allowed(r) || r[0].Remaining != 0 {
			t.Errorf("all that remains: %+v", r)
		}
	})
}
