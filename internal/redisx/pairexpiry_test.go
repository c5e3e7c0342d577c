package redisx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// heldAndNot are limits of requests of which the first two hold.
var heldAndNot = []string{"9 at once", "9 at once, 9/m;fixed-window", "9/m;fixed-window"}

func limitsAs(limits string) core.Claim {
	c := claimOf("k", core.MustParseLimits(limits)...)
	c.Hold = c.Limits[0].Algorithm == core.InFlight
	return c
}

// A request does not shorten the time for which a key is kept for the state of another limit.
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
	if err := s.Settle(context.Background(), held); err != nil {
		t.Fatal(err)
	}
	kept("after a renewal")
	server.SetTime(start.Add(60 * time.Second))
	other := claimOf("k", core.PerSecond(9))
	other.Hold = true
	take(t, s, other)
	kept("after a hold of another limit")
	server.SetTime(start.Add(60*time.Second + end))
	if r := take(t, s, claimOf("k", core.MustParseLimits("2/10s;ban=1h")...))[0]; r.Allowed || r.RetryAfter < ban-end {
		t.Errorf("%+v, want a ban", r)
	}
}

// A state that cannot be read is not taken for one that was never stored.
func TestUnreadableStateIsAnError(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s, c := redisx.New(client, options), claimOf("k", core.PerMinute(9).Using(core.FixedWindow))
	take(t, s, c)
	if err := client.Do(context.Background(), "acl", "setuser", "default", "-hget").Err(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Take(context.Background(), []core.Claim{c}, nil); err == nil || errors.Is(err, core.ErrInvalid) {
		t.Errorf("decided without a state: %+v, %v", r, err)
	}
}

// While a user lacks the right for PEXPIRE, requests fail. The first one afterwards gives each key its expiry.
func TestKeyExpiresOncePexpireIsPermittedAgain(t *testing.T) {
	ctx := context.Background()
	client := redistest.Start(t).Client(t)
	s, minute, day := redisx.New(client, options), core.PerMinute(90), core.PerDay(90)
	permit := func(rule string) {
		t.Helper()
		if err := client.Do(ctx, "acl", "setuser", "default", rule).Err(); err != nil {
			t.Fatal(err)
		}
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
	if err := s.Settle(ctx, more); err == nil {
		t.Error("a settlement does not fail")
	}
	banned := core.Settlement{Rule: "rule", Key: "banned", Ban: 24 * time.Hour}
	if err := s.Settle(ctx, []core.Settlement{banned}); err == nil {
		t.Error("a ban does not fail")
	}
	permit("+pexpire")
	for key, limit := range map[string]core.Limit{"new": day, "old": day, "held": day, "log": day.Using(core.SlidingLog), "charged": day, "banned": day} {
		r := take(t, s, claimOf(key, limit))[0]
		if key == "new" && r.Remaining != 86 {
			t.Errorf("%d of 90 remain after 3 requests that failed and one that did not, want 86", r.Remaining)
		}
		if key != "banned" {
			continue
		}
		if err := s.Settle(ctx, []core.Settlement{banned}); err != nil {
			t.Fatal(err)
		}
	}
	allExpire(t, client)
	for _, key := range client.Keys(ctx, "*").Val() {
		if ttl := client.PTTL(ctx, key).Val(); ttl < time.Minute {
			t.Errorf("%s expires in %v, want until its limits have recovered", key, ttl)
		}
	}
}
