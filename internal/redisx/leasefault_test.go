package redisx_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// behind returns a store behind a proxy, whose client does not give up.
func behind(t *testing.T) (*redisx.Store, *redistest.Proxy) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	return redisx.New(client, options), proxy
}

// While the server is away what was charged ahead is used up, and then there is an error.
func TestALeaseIsUsedUpWhileTheServerIsAway(t *testing.T) {
	for name, fault := range map[string]redistest.Fault{
		"cut": redistest.CutCommands, "stalled": redistest.SwallowReplies, "loading": {Answer: "LOADING"}, "failing": {Answer: "ERR x"},
	} {
		t.Run(name, func(t *testing.T) {
			s, proxy := behind(t)
			c := leased(claimOf("k", core.PerDay(1000)))
			used := warm(t, s, c)
			proxy.Fault.Store(fault)
			n := 0
			for ; n < 1000; n++ {
				if _, ok := isLocal(s, c); !ok {
					break
				}
			}
			if n == 0 || n >= 1000 {
				t.Fatalf("%d requests were decided from the lease", n)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			if _, err := s.Take(ctx, []core.Claim{c}, nil); err == nil {
				t.Error("a server that is away decided")
			}
			proxy.Fault.Store(redistest.NoFault)
			proxy.Cut() // ends calls that hang
			granted(t, s)
			// Nothing was credited of what got lost: more may be charged than was used, never less.
			var r []core.Result
			redistest.Wait(t, "the server", func() bool {
				got, err := s.Take(context.Background(), []core.Claim{c}, nil)
				r = got
				return err == nil
			})
			if left := 1000 - used - n - 1; r[0].Remaining > left {
				t.Errorf("%d remain, want at most %d", r[0].Remaining, left)
			}
		})
	}
}

// A server that has forgotten the scripts gets them again.
func TestGrantsSurviveAFlushOfTheScripts(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := leased(claimOf("k", core.PerDay(1000)))
	used := warm(t, s, c)
	for range 300 {
		if used%10 == 0 {
			client.ScriptFlush(context.Background())
		}
		r := take(t, s, c)
		if used++; !allowed(r) || r[0].Remaining != 1000-used {
			t.Fatalf("request %d: %+v", used, r[0])
		}
		granted(t, s)
	}
}

// A failed grant is not asked for again at once.
func TestAFailedGrantIsFollowedByAPause(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := leased(claimOf("k", core.PerDay(1000)))
	warm(t, s, c)
	if err := client.Do(context.Background(), "acl", "setuser", "default", "-hget", "-hmget").Err(); err != nil {
		t.Fatal(err)
	}
	for ok := true; ok; {
		_, ok = isLocal(s, c)
	}
	granted(t, s)
	before := calls(t, client, "fcall")
	for range 20 {
		if _, err := s.Take(context.Background(), []core.Claim{c}, nil); err == nil {
			t.Fatal("decided without a state")
		}
	}
	granted(t, s)
	if n := calls(t, client, "fcall") - before; n > 20 {
		t.Errorf("%d calls for 20 requests", n)
	}
}

// A key whose limits have changed is leased again after a pause.
func TestAKeyIsLeasedAnewForOtherLimits(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	for _, limits := range []string{"100000/d", "200000/d"} {
		c := claimOf("k", core.MustParseLimits(limits)...)
		c.Lease = 200 * time.Millisecond
		redistest.Wait(t, "a lease for "+limits, func() bool {
			_, ok := isLocal(s, c)
			if !ok {
				take(t, s, c)
			}
			return ok
		})
	}
}
