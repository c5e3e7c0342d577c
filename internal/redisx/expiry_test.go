package redisx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// slack is how long a key outlives its states: see lua/pair.lua.
const slack = 10 * time.Second

func TestKeysExpireWhenTheirLimitsHaveRecovered(t *testing.T) {
	s, client := started(t)
	ctx := context.Background()
	for _, row := range []struct {
		why, limits string
		cost        int
		min, max    time.Duration
	}{
		{"a bucket until it is empty", "10/m", 5, 30 * time.Second, 30 * time.Second},
		{"a window until its end", "10/d;fixed-window", 1, 0, 24 * time.Hour},
		{"a sub-bucket until one period after its end", "10/m;sliding-window", 1, time.Minute, 66 * time.Second},
		{"an instant for a period", "10/m;sliding-log", 1, time.Minute, time.Minute},
		{"the longest of all", "10/s, 1000/d", 1, 86400 * time.Millisecond, 86400 * time.Millisecond},
		{"the longest of two logs", "10/m;sliding-log, 10/h;sliding-log", 1, time.Hour, time.Hour},
		{"as long as Redis can", "1/3650d;burst=28", 28, 280 * 365 * 24 * time.Hour, 285 * 365 * 24 * time.Hour},
	} {
		flush(t, client)
		c := claimOf("k", core.MustParseLimits(row.limits)...)
		c.Cost = row.cost
		begun := time.Now()
		must.True(t, allowed(take(t, s, c)), "%s was denied", row.limits)
		for _, key := range client.Keys(ctx, "*").Val() {
			if key != pairKey && key != pairKey+":"+fmt.Sprint(row.max.Microseconds()) {
				continue // the shorter one of two logs
			}
			ms := client.Do(ctx, "pttl", key).Val().(int64)
			expect.True(t, ms >= 0 && ms >= (row.min-time.Since(begun)).Milliseconds() && ms <= (row.max+slack).Milliseconds()+2,
				"%s: %s expires in %dms, want %v to %v", row.why, key, ms, row.min, row.max)
		}
	}
}

func TestStoredExpiriesAreExact(t *testing.T) {
	for _, row := range []struct {
		limit string
		cost  int
		want  time.Duration
	}{
		{"10/m", 5, 30 * time.Second},
		{"7/1000001us", 7, 1001 * time.Millisecond},
		{"3/3001us", 1, 2 * time.Millisecond}, // a third of a microsecond after the first
		{"3/3001us, 100/1ms", 1, 2 * time.Millisecond},
		{"3/2999us", 1, time.Millisecond}, // a third of a microsecond before it
		{"3/2999us, 100/1ms", 1, time.Millisecond},
		{"1/1000001us;fixed-window", 1, 0}, // until the window ends
		{"10/m;fixed-window", 1, time.Minute},
		{"10/m;sliding-window", 1, 66 * time.Second},
		{"10/7000001us;sliding-log", 1, 7001 * time.Millisecond},
		{"10/m;sliding-log", 10, time.Minute},
	} {
		s, server := frozen(t)
		c := claimOf("k", core.MustParseLimits(row.limit)...)
		c.Cost = row.cost
		r := take(t, s, c)[0]
		if row.want == 0 {
			row.want = r.ResetAfter.Truncate(time.Millisecond) + time.Millisecond
		}
		row.want += slack
		key := server.Keys()[0]
		got := server.TTL(key)
		expect.Equal(t, got, row.want, "%s: expires in", row.limit)
		kept := time.UnixMicro(int64(parseWords(server.HGet(key, "s"))[0])) // as the words of a pair say
		expect.True(t, kept.Equal(start.Add(got)), "%s: the stored expiry is %v", row.limit, kept)
	}
}

// In ticks of a second, the last fraction of a second is not yet counted as drained, but the expiry includes it.
func TestBucketExpiresWhenItIsEmpty(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.Every(999_983, 3650*24*time.Hour))
	take(t, s, c)
	server.SetTime(start.Add(1500 * time.Millisecond))
	r := take(t, s, c)[0]
	got, want := server.TTL(pairKey), r.ResetAfter
	expect.True(t, got >= want && got <= want+slack+2*time.Millisecond, "expires in %v, is empty in %v", got, want)
}

// TestExpiryIsSetSeldom removes the expiry of a key to see when it is set again.
func TestExpiryIsSetSeldom(t *testing.T) {
	s, client := started(t)
	ctx := context.Background()
	for _, limits := range []string{"100000/h", "100000/h, 5000/s"} {
		t.Run(limits, func(t *testing.T) {
			c := claimOf("k", core.MustParseLimits(limits)...)
			redistest.Wait(t, "two requests within the slack", func() bool {
				flush(t, client)
				begun := time.Now()
				take(t, s, c)
				client.Persist(ctx, pairKey)
				take(t, s, c)
				ttl := client.PTTL(ctx, pairKey).Val()
				expect.True(t, ttl < 0 || time.Since(begun) >= slack, "expires in %v, want no expiry set", ttl)
				return ttl < 0
			})
			s.Shift(slack + time.Second)
			take(t, s, c)
			if ttl := client.PTTL(ctx, pairKey).Val(); ttl == -1 || ttl > slack+100*time.Millisecond { // the key may have expired meanwhile
				t.Errorf("expires in %v, want at most the time that a request takes to drain, and %v", ttl, slack)
			}
		})
	}
}

func TestHoldKeepsAKeyThatWouldExpireBefore(t *testing.T) {
	s, client := started(t)
	c := claimOf("k", core.PerMinute(10))
	c.Cost = 5
	take(t, s, c) // kept for 40 s
	c.Hold, c.Cost = true, 1
	must.True(t, allowed(take(t, s, c)), "the hold was denied")
	key := client.Keys(context.Background(), "*").Val()[0]
	if kept := client.PTTL(context.Background(), key).Val(); kept < 55*time.Second+slack || kept > 75*time.Second+slack {
		t.Errorf("the key is kept for %v, want for as long as the hold, 60 to 66 s, and 6 s in which what it held drains", kept)
	}
	s, server := frozen(t)
	c = claimOf("k", core.PerHour(10))
	c.Cost = 5
	take(t, s, c)
	c.Hold, c.Cost = true, 1
	take(t, s, c)
	expect.AtLeast(t, server.TTL(pairKey), 36*time.Minute, "the key is kept for (6 min for each of 6 requests, of which one is charged when its hold ends)")

	s, server = frozen(t)
	take(t, s, claimOf("k", core.MustParseLimits("10/h;sliding-window;buckets=2")...))
	server.SetTime(start.Add(45 * time.Minute))
	c.Limits[0].Algorithm = core.SlidingWindow
	take(t, s, c)
	expect.AtLeast(t, server.TTL(pairKey), 75*time.Minute, "the key is kept for (the hold is charged to the half hours, too, of which one ends in 15 min)")
}

// Settlements and resets do not make a key expire earlier. A settlement that leaves nothing to remember deletes it.
func TestSettlementsAndResetsKeepTheExpiry(t *testing.T) {
	for why, row := range map[string]struct {
		hold bool
		end  func(*redisx.Store, core.Settlement) error
		want time.Duration
	}{
		"settled hold": {true, func(s *redisx.Store, st core.Settlement) error {
			return s.Settle(context.Background(), []core.Settlement{st})
		}, 96*time.Second + slack}, // the hold ends after 66s, and then is charged
		"refund": {false, func(s *redisx.Store, st core.Settlement) error {
			return s.Settle(context.Background(), []core.Settlement{st})
		}, 30*time.Second + slack},
		"reset": {false, func(s *redisx.Store, st core.Settlement) error {
			return s.Reset(context.Background(), []core.Pair{{Rule: st.Rule, Key: st.Key}})
		}, 30*time.Second + slack},
	} {
		s, server := frozen(t)
		c := claimOf("k", core.MustParseLimits("10/m")...)
		c.Cost, c.Hold = 5, row.hold
		r := take(t, s, c)[0]
		before := server.TTL(server.Keys()[0])
		must.Do(t, row.end(s, core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: r.At, Cost: 5, Final: 1, Held: c.Hold}))
		if after := server.TTL(server.Keys()[0]); before != row.want && !row.hold || before > row.want || after != before {
			t.Errorf("%s: expires in %v, before in %v, want %v", why, after, before, row.want)
		}
		s, server = frozen(t)
		r = take(t, s, c)[0]
		must.Do(t, row.end(s, core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: r.At, Cost: 5, Held: c.Hold}))
		expect.Equal(t, len(server.Keys()) == 0, why != "reset", "%s of everything: the key is deleted", why)
	}
}

// heldAndNot are limits of requests of which the first two hold.
var heldAndNot = []string{"9 at once", "9 at once, 9/m;fixed-window", "9/m;fixed-window"}

func limitsAs(limits string) core.Claim {
	c := claimOf("k", core.MustParseLimits(limits)...)
	c.Hold = c.Limits[0].Algorithm == core.InFlight
	return c
}

// A request does not make a key expire before the state of another limit has ended.
func TestRequestDoesNotShortenTheExpiry(t *testing.T) {
	for _, limits := range heldAndNot {
		s, server := frozen(t)
		c := limitsAs(limits)
		take(t, s, c)
		take(t, s, claimOf("k", core.PerDay(9)))
		want := server.TTL(pairKey)
		if take(t, s, c); server.TTL(pairKey) < want || want < time.Hour {
			t.Errorf("%s: kept for %v, want %v at least", limits, server.TTL(pairKey), want)
		}
	}
}

// The charge for a hold that ends may begin a ban, even in a request of another limit of the pair.
func TestKeyIsKeptForTheBanOfAnEndedHold(t *testing.T) {
	const end, ban = 66 * time.Second, time.Hour
	s, server := frozen(t)
	c := claimOf("k", core.MustParseLimits("2/10s;ban=1h")...)
	c.Hold, c.Cost = true, 2
	held := settled([]core.Claim{c}, take(t, s, c))
	kept := func(when string) {
		if ttl := server.TTL(pairKey); ttl < end+ban || ttl > end+ban+20*time.Second+slack {
			t.Errorf("%s: kept for %v, want %v and what drains", when, ttl, end+ban)
		}
	}
	kept("after a hold")
	held[0].Renew = true
	server.SetTime(start.Add(30 * time.Second))
	must.Do(t, s.Settle(context.Background(), held))
	kept("after a renewal")
	server.SetTime(start.Add(60 * time.Second))
	other := claimOf("k", core.PerSecond(9))
	other.Hold = true
	take(t, s, other)
	kept("after a hold of another limit")
	server.SetTime(start.Add(60*time.Second + end))
	r := take(t, s, claimOf("k", core.MustParseLimits("2/10s;ban=1h")...))[0]
	expect.True(t, !r.Allowed && r.RetryAfter >= ban-end, "%+v, want a ban", r)
}

// A pair whose rule gets other limits would otherwise keep states of all of them.
func TestStateOfANewLimitReplacesThoseThatHaveEnded(t *testing.T) {
	s, server := frozen(t)
	now := start
	s.SetClock(func() time.Time { return now })
	size := func() int { return len(parseWords(server.HGet(pairKey, "s"))) }
	take(t, s, claimOf("k", core.MustParseLimits("5/m, 5/h;fixed-window")...))
	both := size()
	now = now.Add(2 * time.Minute)
	take(t, s, claimOf("k", core.MustParseLimits("5/d, 5/h;fixed-window")...))
	expect.Equal(t, size(), both, "words, with a limit in place of one that has ended")
}

func TestUnreadableStateIsAnError(t *testing.T) {
	s, client := started(t)
	c := claimOf("k", core.PerMinute(9).Using(core.FixedWindow))
	take(t, s, c)
	must.Do(t, client.Do(context.Background(), "acl", "setuser", "default", "-hget").Err())
	r, err := s.Take(context.Background(), []core.Claim{c}, nil)
	expect.True(t, err != nil && !errors.Is(err, core.ErrInvalid), "decided without a state: %+v, %v", r, err)
}

// While a user lacks the right for PEXPIRE, requests fail. The first one afterwards gives each key its expiry.
func TestKeyExpiresOncePexpireIsPermittedAgain(t *testing.T) {
	ctx := context.Background()
	client := redistest.Start(t).Client(t)
	s, minute, day := redisx.New(client, options), core.PerMinute(90), core.PerDay(90)
	permit := func(rule string) {
		t.Helper()
		must.Do(t, client.Do(ctx, "acl", "setuser", "default", rule).Err())
	}
	held := claimOf("held", day)
	held.Hold = true
	charged := claimOf("charged", day)
	results := take(t, s, charged, claimOf("old", minute))
	permit("-pexpire")
	for n, c := range []core.Claim{claimOf("new", day), claimOf("old", day), held, claimOf("log", day.Using(core.SlidingLog))} {
		for range 3 {
			if r, err := s.Take(ctx, []core.Claim{c}, nil); err == nil || errors.Is(err, core.ErrInvalid) {
				t.Errorf("claim %d: %+v, %v, want an error of the server", n, r, err)
			}
		}
	}
	more := settled([]core.Claim{charged}, results[:1])
	more[0].Final = 50
	err := s.Settle(ctx, more)
	expect.Fails(t, err, "a settlement does not fail")
	banned := core.Settlement{Rule: "rule", Key: "banned", Ban: 24 * time.Hour}
	err = s.Settle(ctx, []core.Settlement{banned})
	expect.Fails(t, err, "a ban does not fail")
	permit("+pexpire")
	for key, limit := range map[string]core.Limit{"new": day, "old": day, "held": day, "log": day.Using(core.SlidingLog), "charged": day, "banned": day} {
		r := take(t, s, claimOf(key, limit))[0]
		expect.True(t, key != "new" || r.Remaining == 86,
			"%d of 90 remain after 3 requests that failed and one that did not, want 86", r.Remaining)
		if key != "banned" {
			continue
		}
		must.Do(t, s.Settle(ctx, []core.Settlement{banned}))
	}
	allExpire(t, client)
	for _, key := range client.Keys(ctx, "*").Val() {
		expect.AtLeast(t, client.PTTL(ctx, key).Val(), time.Minute, "%s expires in (until its limits have recovered)", key)
	}
}

func TestEvictionPolicyIsWarnedAboutOnce(t *testing.T) {
	for policy, want := range map[string]int{"allkeys-lru": 1, "volatile-ttl": 1, "volatile-lru": 1, "noeviction": 0} {
		t.Run(policy, func(t *testing.T) {
			log := expect.KeepLog(t)
			client := redistest.Start(t, "--maxmemory-policy", policy).Client(t)
			s := redisx.New(client, options)
			for range 3 {
				take(t, s, claimOf("k", core.PerMinute(5)))
			}
			redistest.Wait(t, "the store to ask for the policy", func() bool { return calls(t, client, "info") > 1 })
			if want > 0 {
				redistest.Wait(t, "the warning", func() bool { return strings.Contains(log.String(), "maxmemory-policy="+policy) })
			}
			take(t, s, claimOf("k", core.PerMinute(5)))
			expect.Equal(t, strings.Count(log.String(), "WARN"), want, "warnings:\n%s", log.String())
		})
	}
}
