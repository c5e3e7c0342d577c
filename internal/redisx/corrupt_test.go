package redisx_test

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

const pairKey = "spillgate:7:{k}:rule"

// corruptions are values that replace the stored states of a pair with a limit of 5 per minute.
var corruptions = []struct {
	name  string
	of    string // how the names of the algorithms begin that it applies to
	value func(kind, sibling uint64) string
}{
	{"garbage", "", func(_, _ uint64) string { return "garbage" }},
	{"nothing", "", func(_, _ uint64) string { return "" }},
	{"1e300", "", func(_, _ uint64) string { return "1e300" }},
	{"no numbers", "", func(_, _ uint64) string { return strings.Repeat("\xff", 64) }},
	{"an expiry that never comes", "", func(_, _ uint64) string { return words(1 << 60) }},
	{"a state whose expiry never comes", "", func(kind, sibling uint64) string { return state(1<<60, kind, sibling) }},
	{"half a word", "", func(kind, sibling uint64) string { return state(ends, kind, sibling)[:15] }},
	{"only a kind", "", func(kind, _ uint64) string { return words(ends, kind) }},
	{"a state cut off", "token", func(kind, sibling uint64) string { return words(ends, kind, sibling) }},
	{"a state of no limit", "", func(_, sibling uint64) string { return state(ends, 12, sibling) }},
	{"a state of no algorithm", "", func(kind, sibling uint64) string { return state(ends, kind|3, sibling) }},
	{"a state of an unknown algorithm", "", func(kind, sibling uint64) string { return state(ends, kind-kind%24+4*uint64(core.InFlight), sibling) }},
	{"something behind the states", "", func(_, _ uint64) string { return words(ends, 7, 1) }},
	{"something behind a state", "", func(kind, sibling uint64) string { return state(ends, kind, sibling) + words(4) }},
	{"a cell that ends before the one before it", "", func(_, _ uint64) string { return words(ends, 4, 9, 0, 0, 0, 4, 8, 0, 0, 0) }},
	{"more is held than there is room for", "", func(_, _ uint64) string { return words(ends, 2, 1<<40, 1, 1, 1<<40) }},
	{"nothing is held", "", func(_, _ uint64) string { return words(ends, 2, 1<<50, 1, 0, 0) }},
	{"nothing is held beside a state", "", func(kind, sibling uint64) string { return state(ends, kind, sibling) + words(2, 1<<50, 1, 0, 0) }},
	{"a hold of a group that is not there", "", func(_, _ uint64) string { return words(ends, 2, 1<<50, 1, 1, 1) }},
	{"a group of no limit", "", func(_, _ uint64) string { return words(ends, 1, 1, 12, 5, 5, 0, 0, 0, 0) }},
	{"a group cut off", "", func(kind, _ uint64) string { return words(ends, 1, 2, kind, 5, 5, 1, 0, 0, 0) }},
	{"more limits than there is room for", "", func(kind, _ uint64) string { return words(ends, 1, 1<<62, kind, 5, 5, 1, 0, 0, 0) }},
	{"too large a level", "token", func(kind, sibling uint64) string { return state(ends, kind, sibling, math.MaxUint64) }},
	{"no exact level", "token", func(kind, sibling uint64) string { return state(ends, kind, sibling, 1<<53+2) }},
	{"too large a ban", "token", func(kind, sibling uint64) string { return state(ends, kind, sibling, 0, 0, 0, 1<<54) }},
	{"no rate", "token", func(kind, _ uint64) string { return state(ends, kind, 0) }},
	{"a rate too large", "token", func(kind, _ uint64) string { return state(ends, kind, 1<<53+2) }},
	{"an impossible tick", "token", func(kind, sibling uint64) string { return state(ends, kind+3, sibling) }},
	{"too large a count", "fixed", func(kind, _ uint64) string { return state(ends, kind, math.MaxUint64) }},
	{"a next window that has ended", "fixed", func(kind, _ uint64) string {
		return state(ends, kind, 1, uint64(time.Now().Truncate(time.Minute).Add(time.Minute).UnixMicro()), 1)
	}},
	{"a next window that does not end", "fixed", func(kind, _ uint64) string {
		return state(ends, kind, 1, uint64(time.Now().Truncate(time.Minute).Add(time.Minute).UnixMicro()), 1<<53+2)
	}},
	{"a next window that ends too late", "fixed", func(kind, _ uint64) string {
		return state(ends, kind, 1, uint64(time.Now().Truncate(time.Minute).Add(time.Minute).UnixMicro()), 1<<53-1)
	}},
	{"too large a sum", "sliding window", func(kind, sibling uint64) string { return state(ends, kind, sibling, math.MaxUint64) }},
	{"no sub-bucket", "sliding window", func(kind, sibling uint64) string { return state(ends, kind, sibling, 0, 1) }},
	{"no oldest sub-bucket", "sliding window", func(kind, sibling uint64) string { return state(ends, kind, sibling, 0, 0, 1) }},
	{"an oldest sub-bucket after the newest", "sliding window", func(kind, sibling uint64) string { return state(ends, kind, sibling, 1, 0, sibling) }},
	{"an oldest sub-bucket that the ring has no room for", "sliding window", func(kind, sibling uint64) string {
		return state(ends, kind, sibling, 1, uint64(time.Now().UnixMicro())/sibling*sibling)
	}},
	{"too late a sub-bucket", "sliding window", func(kind, sibling uint64) string {
		return state(ends, kind, sibling, 1, math.MaxInt64/sibling*sibling, math.MaxInt64/sibling*sibling)
	}},
	{"no width", "sliding window", func(kind, _ uint64) string { return words(ends, kind, 0, 0, 0) }},
	{"too small a width", "sliding window", func(kind, _ uint64) string { return words(ends, kind, 1, 0, 0) }},
}

// ends is the first word of the states of corruptions: until when they are kept.
const ends = 1_800_000_000_000_000

// stateWords returns how many words the states of limits of 5 per minute have, by the codes of their algorithms.
var stateWords = sync.OnceValue(func() map[uint64]int {
	server, all := miniredis.NewMiniRedis(), make(map[uint64]int)
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	for _, l := range everyAlgorithm(5, time.Minute) {
		server.FlushAll()
		if _, err := redisx.New(client, options).Take(context.Background(), []core.Claim{claimOf("k", l)}, nil); err != nil {
			panic(err)
		}
		all[kindOf(l)%24] = len(server.HGet(pairKey, "s"))/8 - 1
	}
	return all
})

// state returns a pair with one state, whose other words are 0.
func state(head uint64, numbers ...uint64) string {
	rest := make([]uint64, max(0, stateWords()[numbers[0]%24&^3]-len(numbers)))
	return words(append(append([]uint64{head}, numbers...), rest...)...)
}

func words(numbers ...uint64) string {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return string(b)
}

func TestCorruptStateDeniesForOnePeriodAtMost(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	for _, l := range everyAlgorithm(5, time.Minute) {
		for _, c := range corruptions {
			if !strings.HasPrefix(l.Algorithm.String(), c.of) {
				continue
			}
			t.Run(l.Algorithm.String()+"/"+c.name, func(t *testing.T) {
				flush(t, client)
				s := redisx.New(client, options)
				take(t, s, claimOf("k", l))
				client.HSet(ctx, pairKey, "s", c.value(kindOf(l), siblingOf(l)))
				checkRepair(t, s, l)
				allExpire(t, client)
			})
		}
	}
}

// A charge in a new sub-bucket adds the counters up again, so that a sum that is not theirs does not stay.
func TestWrongSumOfASlidingWindowDoesNotStay(t *testing.T) {
	s, server := frozen(t)
	l := core.PerMinute(5).Using(core.SlidingWindow)
	end := uint64(start.Add(l.Width()).UnixMicro())
	server.HSet(pairKey, "s", state(ends, kindOf(l), siblingOf(l), 3, end, end))
	expect.Equal(t, take(t, s, claimOf("k", l))[0].Remaining, 1, "remaining (one request more than the sum)")
	server.SetTime(start.Add(l.Width()))
	expect.Equal(t, take(t, s, claimOf("k", l))[0].Remaining, 3, "remaining (two requests were charged)")
}

// The corruptions use the current layout: the store does not repair a valid state that is built the same way.
func TestEmptyStateIsNotRepaired(t *testing.T) {
	for _, l := range everyAlgorithm(5, time.Minute) {
		for _, value := range []string{words(ends), state(ends, kindOf(l), siblingOf(l))} {
			s, server := frozen(t)
			server.HSet(pairKey, "s", value)
			r := take(t, s, claimOf("k", l))[0]
			expect.True(t, r.Remaining == 4 && s.Repaired() == 0, "%v: %+v, %d states repaired", l, r, s.Repaired())
		}
	}
}

func TestKeyOfAnotherTypeDeniesForOnePeriodAtMost(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	for _, l := range everyAlgorithm(5, time.Minute) {
		for name, spoil := range map[string]func() error{
			"list":   func() error { return client.LPush(ctx, pairKey, "x").Err() },
			"string": func() error { return client.Set(ctx, pairKey, "x", 0).Err() },
		} {
			t.Run(l.Algorithm.String()+"/"+name, func(t *testing.T) {
				flush(t, client)
				must.Do(t, spoil())
				checkRepair(t, redisx.New(client, options), l)
				allExpire(t, client)
			})
		}
	}
}

// checkRepair fails the test unless l is used up now, is repaired once, and recovers.
func checkRepair(t *testing.T, s *redisx.Store, l core.Limit) {
	t.Helper()
	first := take(t, s, claimOf("k", l))[0]
	expect.True(t, !first.Allowed && first.Remaining == 0 && first.RetryAfter <= l.Period+l.Width(),
		"at first %+v, want a limit just used up", first)
	again := take(t, s, claimOf("k", l))[0]
	expect.True(t, again.RetryAfter <= first.RetryAfter, "wait %v, then %v", first.RetryAfter, again.RetryAfter)
	expect.Equal(t, s.Repaired(), 1, "states repaired")
	s.Shift(first.RetryAfter)
	r := take(t, s, claimOf("k", l))[0]
	expect.True(t, r.Allowed, "after %v: %+v, want it to be allowed", first.RetryAfter, r)
	s.Shift(2 * l.Period)
	expect.Equal(t, take(t, s, claimOf("k", l))[0].Remaining, 4, "remaining after two periods")
	expect.Equal(t, s.Repaired(), 1, "states repaired in the end")
}

func TestStateFromTheFutureDeniesForOnePeriodAtMost(t *testing.T) {
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
			must.True(t, !r.Allowed && r.RetryAfter <= l.Period+l.Width(), "after the clock went back: %+v", r)
			s.Shift(r.RetryAfter)
			r = take(t, s, c)[0]
			expect.True(t, r.Allowed, "after its RetryAfter: %+v", r)
			s.Shift(2 * l.Period)
			r = take(t, s, c)[0]
			expect.Equal(t, r.Remaining, 4, "remaining after two periods")
			allExpire(t, client)
		})
	}
}

func TestCorruptStateLeavesOthersAsTheyAre(t *testing.T) {
	s, client := started(t)
	ctx := context.Background()
	limits := core.MustParseLimits("5/m, 5/h")
	take(t, s, claimOf("k", limits...))
	numbers := parseWords(client.HGet(ctx, pairKey, "s").Val())
	numbers[1+6+2] = math.MaxUint64 // the level of the second
	client.HSet(ctx, pairKey, "s", words(numbers...))
	r := take(t, s, claimOf("k", limits...))
	expect.True(t, r[0].Remaining == 4 && r[1].Remaining == 0, "%+v, want 4 left by the good state and none by the bad one", r)
	expect.Equal(t, s.Repaired(), 1, "states repaired")
}

// Members that the store did not write, scores in the future and keys of another type are corrupt.
func TestCorruptLogDeniesForOnePeriodAtMost(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx, l := t.Context(), core.PerMinute(5).Using(core.SlidingLog)
	key := pairKey + ":60000000"
	now := float64(time.Now().UnixMicro())
	for name, spoil := range map[string]func() error{
		"a foreign member":        func() error { return client.ZAdd(ctx, key, redis.Z{Score: now, Member: "x"}).Err() },
		"a score of the far past": func() error { return client.ZAdd(ctx, key, redis.Z{Score: math.Inf(1), Member: "x"}).Err() },
		"a score of next year":    func() error { return client.ZAdd(ctx, key, redis.Z{Score: now + 3e13, Member: "1:0"}).Err() },
		"a string":                func() error { return client.Set(ctx, key, "x", 0).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			flush(t, client)
			must.Do(t, spoil())
			checkRepair(t, redisx.New(client, options), l)
			allExpire(t, client)
		})
	}
}

func TestCorruptPairHasAllLimitsUsedUp(t *testing.T) {
	s, client := started(t)
	c := claimOf("k", core.MustParseLimits("5/m;sliding-log, 5/h;sliding-log")...)
	take(t, s, c)
	client.Set(context.Background(), pairKey, "x", 0)
	if r := take(t, s, c); r[0].Remaining+r[1].Remaining != 0 || s.Repaired() != 2 {
		t.Errorf("%+v, %d states repaired, want 2 limits used up", r, s.Repaired())
	}
	allExpire(t, client)
}

func TestCorruptStateOfRateZeroIsRepairedOnce(t *testing.T) {
	s, client := started(t)
	for _, l := range everyAlgorithm(0, time.Minute) {
		for range 2 {
			client.Set(context.Background(), pairKey, "x", 0)
			before := s.Repaired()
			for range 2 {
				r := take(t, s, claimOf("k", l))[0]
				expect.True(t, !r.Allowed && r.RetryAfter == core.Never && r.RefillAfter == 0, "%+v, want a denial for ever", r)
			}
			expect.AtMost(t, s.Repaired()-before, 1, "%v: how often repaired (at most once)", l)
		}
	}
}

func TestRefundRepairsCorruptState(t *testing.T) {
	s, client := started(t)
	client.Set(context.Background(), pairKey, "x", 0)
	must.Do(t, s.Settle(context.Background(), settledAt(time.Now(), claimOf("k", core.PerMinute(5)))))
	expect.Equal(t, s.Repaired(), 1, "states repaired")
	allExpire(t, client)
}

// Some members of the instant that a refund looks for were not written by the store.
func TestRefundRepairsALogWithForeignMembers(t *testing.T) {
	s, client := started(t)
	c := claimOf("k", core.PerMinute(5).Using(core.SlidingLog))
	r := take(t, s, c)[0]
	take(t, s, c)
	must.Do(t, client.ZAdd(t.Context(), pairKey+":60000000", redis.Z{Score: float64(r.At.UnixMicro()), Member: "x"}).Err())
	must.Do(t, s.Settle(t.Context(), settledAt(r.At, c)))
	r = take(t, s, c)[0]
	expect.True(t, !r.Allowed && s.Repaired() == 1, "%+v, %d states repaired, want a limit used up", r, s.Repaired())
}

// A reset replaces a pair that makes no sense: the next request begins with a full limit.
func TestResetReplacesACorruptPair(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	for _, value := range []string{"garbage", words(1 << 60), words(ends, 9, 4), ""} {
		flush(t, client)
		s := redisx.New(client, options)
		c := claimOf("k", core.PerMinute(5))
		take(t, s, c)
		client.HSet(ctx, pairKey, "s", value)
		must.Do(t, s.Reset(ctx, pairsOf(c)))
		r := take(t, s, c)[0]
		expect.True(t, r.Allowed && r.Remaining == 4 && s.Repaired() == 0, "%q: %+v, %d repaired", value, r, s.Repaired())
	}
}

// A pair of too many limits drops the ones that end first; no request fails.
func TestPairOfTooManyLimitsStaysSmall(t *testing.T) {
	s, client := started(t)
	for i := range 150 {
		r := take(t, s, claimOf("k", core.Every(5, time.Hour+time.Duration(i)*time.Second)))
		must.True(t, r[0].Allowed, "limit %d: %+v", i, r)
	}
	size := func() int { return len(client.HGet(t.Context(), pairKey, "s").Val()) }
	expect.True(t, size() <= 100*48+8 && s.Repaired() <= 0, "%d bytes, %d states repaired", size(), s.Repaired())
	flush(t, client)
	for i := range 20 {
		take(t, s, claimOf("k", core.PerHour(9+i)))
	}
	expect.Equal(t, size(), 8*48+8, "bytes of 20 rates of one period")
	s.Shift(2 * time.Hour)
	take(t, s, claimOf("k", core.PerHour(100)))
	expect.Equal(t, size(), 48+8, "bytes of a rate, once the others have ended")
}

func TestFullLogIsNotRepaired(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerMinute(1000).Using(core.SlidingLog))
	grant(t, s, c, 9000)
	c.Cost = 10_000
	take(t, s, c)
	server.SetTime(start.Add(time.Second))
	if r := take(t, s, c)[0]; r.Allowed || r.Remaining != 0 || r.ResetAfter != 59*time.Second || s.Repaired() != 0 {
		t.Errorf("%+v, %d states repaired", r, s.Repaired())
	}
}

func TestGivingBackABookingRepairsCorruptState(t *testing.T) {
	s, server := frozen(t)
	c := core.Claim{Rule: "rule", Key: "k", Limits: []core.Limit{core.PerMinute(5)}, MaxWait: time.Second}
	at := take(t, s, c)[0].At
	server.HSet(pairKey, "s", state(ends, kindOf(c.Limits[0]), siblingOf(c.Limits[0]), 1<<54))
	must.Do(t, s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: at, Cost: 1, MaxWait: c.MaxWait}}))
	c.Peek = true
	if r := take(t, s, c)[0]; r.Remaining != 1 || s.Repaired() != 1 {
		t.Errorf("%d remain and %d states were repaired, want a bucket that was just used up and got one back", r.Remaining, s.Repaired())
	}
}
