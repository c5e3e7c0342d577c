package redisx_test

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

const (
	pairKey = "spillgate:1:{k}:rule"
	logKey  = "spillgate:1:{k}:rule:log"
)

// corruptions spoil what is stored of a limit of 5 per minute.
var corruptions = []struct {
	name  string
	log   bool
	spoil func(context.Context, *redis.Client) error
}{
	{"garbage", false, set("garbage")},
	{"nothing", false, set("")},
	{"another type", false, func(ctx context.Context, c *redis.Client) error {
		c.Del(ctx, pairKey)
		return c.LPush(ctx, pairKey, "x").Err()
	}},
	{"1e300", false, set("1e300")},
	{"too short for an expiry", false, set("1234567")},
	{"an expiry and no state", false, set(words(ends))},
	{"states cut off", false, set(states(ends, ends, 0, 0)[:100])},
	{"states with something after them", false, set(states(ends, ends, 0, 0) + "x")},
	{"too large a number", false, set(states(ends, ends, 0, math.MaxUint64))},
	{"no exact number", false, set(states(ends, ends, 0, 1<<53+2))},
	{"an expiry that never comes", false, set(states(1<<53, ends, 0, 0))},
	{"an end that never comes", false, set(states(ends, 1<<53-1, 0, 0))},
	{"an impossible tick", false, set(states(ends, ends, 3, 0))},
	{"an impossible algorithm", false, set(states(ends, ends, 12, 0))},
	{"half an entry", false, set(words(ends, kindOf(core.SlidingWindow), ends, 1, 13) + "1800000000000")},
	{"an entry cut off", false, set(words(ends, kindOf(core.SlidingWindow), ends, 1, 26) + "1800000000000")},
	{"a log of another type", true, func(ctx context.Context, c *redis.Client) error {
		c.Del(ctx, logKey)
		return c.Set(ctx, logKey, "x", 0).Err()
	}},
	{"a log of garbage", true, add("000000060000000:9999999999999999:garbage")},
	{"a log with a stranger in front", true, func(ctx context.Context, c *redis.Client) error {
		return c.ZAdd(ctx, logKey, redis.Z{Score: -1, Member: "~"}).Err()
	}},
	{"a log with a stranger at the end", true, func(ctx context.Context, c *redis.Client) error {
		return c.ZAdd(ctx, logKey, redis.Z{Score: 1e300, Member: "!"}).Err()
	}},
	{"a log with a sum that cannot be", true, add("000000060000000:9007199254740991:1e300:1")},
	{"a log with a sum too large for a number", true, add("000000060000000:9007199254740991:99999999999999999999:1")},
	{"a log with a count too large for a number", true, add("000000060000000:9007199254740991:2:99999999999999999999")},
	{"a log with a stamp too large for a number", true, add("000000060000000:9999999999999999:2:1")},
	{"a log with sums that go down", true, add("000000060000000:9007199254740991:0:1")},
	{"a log with a sum too high", true, add("000000060000000:9007199254740991:1000000:1")},
}

func set(value string) func(context.Context, *redis.Client) error {
	return func(ctx context.Context, c *redis.Client) error { return c.Set(ctx, pairKey, value, 0).Err() }
}

// ends is when the states of corruptions end.
const ends = 1_800_000_000_000

// words returns numbers as a server stores them.
func words(numbers ...uint64) string {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return string(b)
}

// kindOf returns what stands for a limit per minute.
func kindOf(a core.Algorithm) uint64 { return uint64(time.Minute.Microseconds())<<4 | uint64(a)<<2 }

// states returns a string of three states, with this number in each, and with some bits more in their kinds.
func states(expires, ends, bits, number uint64) string {
	return words(expires, kindOf(core.TokenBucket)|bits, ends, number, 0, 0, kindOf(core.FixedWindow)|bits, ends, number, 0,
		kindOf(core.SlidingWindow)|bits, ends, number, 0)
}

func add(member string) func(context.Context, *redis.Client) error {
	return func(ctx context.Context, c *redis.Client) error {
		return c.ZAdd(ctx, logKey, redis.Z{Member: member}).Err()
	}
}

func TestCorruptStateDeniesForOnePeriodAtMost(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	for _, l := range everyAlgorithm(5, time.Minute) {
		for _, c := range corruptions {
			isBucket, isSliding := l.Algorithm == core.TokenBucket, l.Algorithm == core.SlidingWindow
			if c.log != (l.Algorithm == core.SlidingLog) || c.name == "an impossible tick" && !isBucket || strings.Contains(c.name, "entry") && !isSliding {
				continue
			}
			t.Run(l.Algorithm.String()+"/"+c.name, func(t *testing.T) {
				flush(t, client)
				s := redisx.New(client, options)
				take(t, s, claimOf("k", l))
				if err := c.spoil(ctx, client); err != nil {
					t.Fatal(err)
				}
				heals(t, s, l)
				allExpire(t, client)
			})
		}
	}
}

// heals fails the test unless l is used up now, is repaired once, and recovers.
func heals(t *testing.T, s *redisx.Store, l core.Limit) {
	t.Helper()
	first := take(t, s, claimOf("k", l))[0]
	if first.Allowed || first.Remaining != 0 || first.RetryAfter > l.Period+l.Width() {
		t.Errorf("at first %+v, want a limit just used up", first)
	}
	if again := take(t, s, claimOf("k", l))[0]; again.RetryAfter > first.RetryAfter {
		t.Errorf("wait %v, then %v", first.RetryAfter, again.RetryAfter)
	}
	if s.Repaired() != 1 {
		t.Errorf("%d states repaired, want 1", s.Repaired())
	}
	s.Shift(first.RetryAfter)
	if r := take(t, s, claimOf("k", l))[0]; !r.Allowed {
		t.Errorf("after %v: %+v, want it to be allowed", first.RetryAfter, r)
	}
	s.Shift(2 * l.Period)
	if r := take(t, s, claimOf("k", l))[0]; r.Remaining != 4 {
		t.Errorf("after two periods %d remain, want 4", r.Remaining)
	}
	if s.Repaired() != 1 {
		t.Errorf("%d states repaired in the end, want 1", s.Repaired())
	}
}

func TestStatesOfTheFutureDenyForOnePeriodAtMost(t *testing.T) {
	client := redistest.Start(t).Client(t)
	for _, l := range everyAlgorithm(5, time.Minute) {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			flush(t, client)
			s := redisx.New(client, options)
			s.Shift(365 * 24 * time.Hour)
			c := claimOf("k", l)
			for range 5 {
				take(t, s, c)
			}
			s.Shift(-365 * 24 * time.Hour)
			r := take(t, s, c)[0]
			if r.Allowed || r.RetryAfter > l.Period+l.Width() {
				t.Fatalf("after the clock went back: %+v", r)
			}
			s.Shift(r.RetryAfter)
			if r = take(t, s, c)[0]; !r.Allowed {
				t.Errorf("after the wait that was promised: %+v", r)
			}
			s.Shift(2 * l.Period)
			if r = take(t, s, c)[0]; r.Remaining != 4 {
				t.Errorf("after two periods %d remain, want 4", r.Remaining)
			}
			allExpire(t, client)
		})
	}
}

func TestOneCorruptStateSpoilsNoOther(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := redisx.New(client, options)
	good, bad := core.MustParseLimits("5/m, 5/m;sliding-log"), core.MustParseLimits("5/h, 5/h;sliding-log")
	take(t, s, claimOf("k", good...))
	take(t, s, claimOf("k", bad...))
	value := client.Get(ctx, pairKey).Val()
	hour := words(uint64(time.Hour.Microseconds()) << 4)
	at := strings.Index(value, hour) + 2*len(hour)
	client.Set(ctx, pairKey, value[:at]+words(math.MaxUint64)+value[at+8:], time.Hour)
	client.ZAdd(ctx, logKey, redis.Z{Member: "000003600000000:9007199254740991:x"})
	if r := take(t, s, claimOf("k", bad...)); r[0].Remaining+r[1].Remaining != 0 {
		t.Errorf("bad states leave %+v", r)
	}
	if r := take(t, s, claimOf("k", good...)); r[0].Remaining != 3 || r[1].Remaining != 3 {
		t.Errorf("good states leave %+v, want 3 and 3", r)
	}
	if s.Repaired() != 2 {
		t.Errorf("%d states repaired, want 2", s.Repaired())
	}
}

func TestAllLogsOfABrokenSetAreUsedUp(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := claimOf("k", core.MustParseLimits("5/m;sliding-log, 5/h;sliding-log")...)
	take(t, s, c)
	client.Set(context.Background(), logKey, "x", 0)
	if r := take(t, s, c); r[0].Remaining+r[1].Remaining != 0 || s.Repaired() != 2 {
		t.Errorf("%+v, %d states repaired, want 2 limits used up", r, s.Repaired())
	}
	allExpire(t, client)
}

func TestARuleOfRateZeroHasNothingToRepair(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for _, l := range everyAlgorithm(0, time.Minute) {
		for range 2 {
			client.Set(context.Background(), pairKey, "x", 0)
			client.Set(context.Background(), logKey, "x", 0)
			before := s.Repaired()
			for range 2 {
				if r := take(t, s, claimOf("k", l))[0]; r.Allowed || r.RetryAfter != core.Never || r.RefillAfter != 0 {
					t.Errorf("%+v, want a denial for ever", r)
				}
			}
			if n := s.Repaired() - before; n != 1 {
				t.Errorf("%v: repaired %d times, want once", l, n)
			}
		}
	}
}

func TestARefundRepairsAsWell(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	client.Set(context.Background(), pairKey, "x", 0)
	c := claimOf("k", core.PerMinute(5))
	if err := s.Settle(context.Background(), settledAt(time.Now(), c)); err != nil {
		t.Fatal(err)
	}
	if s.Repaired() != 1 {
		t.Errorf("%d states repaired, want 1", s.Repaired())
	}
	allExpire(t, client)
}
