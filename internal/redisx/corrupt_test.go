package redisx_test

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

const pairKey = "spillgate:6:{k}:rule"

// corruptions are values that replace the stored states of a pair with a limit of 5 per minute.
var corruptions = []struct {
	name  string
	of    string // how the names of the algorithms begin that it applies to
	value func(kind uint64) string
}{
	{"garbage", "", func(uint64) string { return "garbage" }},
	{"nothing", "", func(uint64) string { return "" }},
	{"1e300", "", func(uint64) string { return "1e300" }},
	{"no numbers", "", func(uint64) string { return strings.Repeat("\xff", 56) }},
	{"another layout", "", func(kind uint64) string { return words(ends-1, kind, 0, 0, 0, 5, 0) }},
	{"an expiry that never comes", "", func(uint64) string { return words(1<<60 + layout) }},
	{"half a word", "", func(kind uint64) string { return words(ends, kind, 1, 1)[:27] }},
	{"a record cut off", "", func(kind uint64) string { return words(ends, kind, 1) }},
	{"a record of no limit", "", func(uint64) string { return words(ends, 12, 1) }},
	{"a record of no algorithm", "", func(kind uint64) string { return words(ends, kind|2, 1, 1) }},
	{"something after the records", "", func(uint64) string { return words(ends, 4, 0, 4) }},
	{"more is held than there is room for", "", func(uint64) string { return words(ends, 0, 1<<40, 0) }},
	{"nothing is held", "", func(uint64) string { return words(ends, 0, 0) }},
	{"too large a level", "token", func(kind uint64) string { return words(ends, kind, math.MaxUint64, 0, 0, 5, 0) }},
	{"no exact level", "token", func(kind uint64) string { return words(ends, kind, 1<<53+2, 0, 0, 5, 0) }},
	{"no rate", "token", func(kind uint64) string { return words(ends, kind, 0, 0, 0, 0, 0) }},
	{"a rate too large", "token", func(kind uint64) string { return words(ends, kind, 0, 0, 0, 1<<53+2, 0) }},
	{"an impossible tick", "token", func(kind uint64) string { return words(ends, kind, 0, 0, 0, 5, 3) }},
	{"a slowest rate too large", "token", func(kind uint64) string { return words(ends, kind, 9, 0, 0, 5, 1<<54) }},
	{"too large a count", "fixed", func(kind uint64) string { return words(ends, kind, math.MaxUint64, 0, 0) }},
	{"too large a sum", "sliding", func(kind uint64) string { return entries(kind, 1<<53+2, 0, 1, 1, 1, 1, 0, 1) }},
	{"more than all in one entry", "sliding", func(kind uint64) string { return entries(kind, 2, 0, 1, 1, 3, 1, 0, 1) }},
	{"an oldest entry after the newest", "sliding", func(kind uint64) string { return entries(kind, 2, 0, 2, 1, 1, 1, 0, 1) }},
	{"too many blocks", "sliding", func(kind uint64) string { return entries(kind, 1, 0, 1, 1, 1, 1, 1<<60, 1) }},
	{"blocks that end before they begin", "sliding", func(kind uint64) string { return entries(kind, 1, 0, 1, 1, 1, 1, 0, 2) }},
	{"more recent entries than there is room for", "sliding", func(kind uint64) string { return entries(kind, 1, 0, 1, 1, 1, 1, 0, 1, 9) }},
}

// layout is the number of the layout of a pair: see lua/pair.lua.
const layout = 6

// ends is the first word of the states of corruptions: until when they are kept, and the layout.
const ends = 1_800_000_000_000*16 + layout

// entries returns a pair with the record of a sliding limit.
func entries(kind uint64, numbers ...uint64) string {
	return words(append(append([]uint64{ends, kind}, numbers...), make([]uint64, recordSizes[kind%16]-1-len(numbers))...)...)
}

// words returns numbers as a server stores them.
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
				client.HSet(ctx, pairKey, "s", c.value(kindOf(l)))
				checkRepair(t, s, l)
				allExpire(t, client)
			})
		}
	}
}

// The corruptions use the current layout: the store does not repair a valid state that is built the same way.
func TestStateOfEntriesThatHaveEndedIsNotRepaired(t *testing.T) {
	for _, l := range everyAlgorithm(5, time.Minute) {
		values := []string{words(ends)}
		switch l.Algorithm {
		case core.SlidingWindow:
			values = append(values, entries(kindOf(l), 1, 0, 1, 1, 1, 1, 0, 1, 0))
		case core.SlidingLog:
			values = append(values, entries(kindOf(l), 1, 0, 1, 1, 1, 1, 0, 1, 8))
		}
		for _, value := range values {
			s, server := frozen(t)
			server.HSet(pairKey, "s", value)
			if r := take(t, s, claimOf("k", l))[0]; r.Remaining != 4 || s.Repaired() != 0 {
				t.Errorf("%v: %+v, %d states repaired", l, r, s.Repaired())
			}
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
				if err := spoil(); err != nil {
					t.Fatal(err)
				}
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
			if r.Allowed || r.RetryAfter > l.Period+l.Width() {
				t.Fatalf("after the clock went back: %+v", r)
			}
			s.Shift(r.RetryAfter)
			if r = take(t, s, c)[0]; !r.Allowed {
				t.Errorf("after its RetryAfter: %+v", r)
			}
			s.Shift(2 * l.Period)
			if r = take(t, s, c)[0]; r.Remaining != 4 {
				t.Errorf("after two periods %d remain, want 4", r.Remaining)
			}
			allExpire(t, client)
		})
	}
}

func TestCorruptStateLeavesOthersAsTheyAre(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := redisx.New(client, options)
	limits := core.MustParseLimits("5/m, 5/h")
	take(t, s, claimOf("k", limits...))
	state := parseWords(client.HGet(ctx, pairKey, "s").Val())
	at, _ := recordOf(state, kindOf(limits[1]))
	state[at+1] = math.MaxUint64 // its level
	client.HSet(ctx, pairKey, "s", words(state...))
	if r := take(t, s, claimOf("k", limits...)); r[0].Remaining != 4 || r[1].Remaining != 0 {
		t.Errorf("%+v, want 4 left by the good state and none by the bad one", r)
	}
	if s.Repaired() != 1 {
		t.Errorf("%d states repaired, want 1", s.Repaired())
	}
}

// Of two records of one kind, the second says nothing.
func TestRecordThatIsThereTwice(t *testing.T) {
	s, server := frozen(t)
	limits := core.MustParseLimits("5/m, 5/h")
	record := []uint64{kindOf(limits[0]), 60_000_000 * 3, uint64(start.UnixMicro()), 0, 5, 0}
	server.HSet(pairKey, "s", words(append(append([]uint64{ends}, record...), record...)...))
	for range 2 { // the second time, the pair has three records
		if r := take(t, s, claimOf("k", limits...)); r[0].Remaining+r[1].Remaining < 3 || s.Repaired() != 0 {
			t.Errorf("%+v, %d states repaired", r, s.Repaired())
		}
	}
}

func TestCorruptPairHasAllLimitsUsedUp(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := claimOf("k", core.MustParseLimits("5/m;sliding-log, 5/h;sliding-log")...)
	take(t, s, c)
	client.Set(context.Background(), pairKey, "x", 0)
	if r := take(t, s, c); r[0].Remaining+r[1].Remaining != 0 || s.Repaired() != 2 {
		t.Errorf("%+v, %d states repaired, want 2 limits used up", r, s.Repaired())
	}
	allExpire(t, client)
}

func TestCorruptStateOfRateZeroIsRepairedOnce(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for _, l := range everyAlgorithm(0, time.Minute) {
		for range 2 {
			client.Set(context.Background(), pairKey, "x", 0)
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

func TestRefundRepairsCorruptState(t *testing.T) {
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

// A reset replaces a pair that makes no sense: the next request begins with a full limit.
func TestResetReplacesACorruptPair(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	for _, value := range []string{"garbage", words(ends-1, 7), words(ends, 4, 0, 4), ""} {
		flush(t, client)
		s := redisx.New(client, options)
		c := claimOf("k", core.PerMinute(5))
		take(t, s, c)
		client.HSet(ctx, pairKey, "s", value)
		if err := s.Reset(ctx, pairsOf(c)); err != nil {
			t.Fatal(err)
		}
		if r := take(t, s, c)[0]; !r.Allowed || r.Remaining != 4 || s.Repaired() != 0 {
			t.Errorf("%q: %+v, %d repaired", value, r, s.Repaired())
		}
	}
}

// A pair that holds something keeps all its limits. If it grows too large, it is replaced; no request fails.
func TestHeldPairOfTooManyLimitsIsReplaced(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	hold := claimOf("k", core.AtOnce(9))
	hold.Hold = true
	take(t, s, hold)
	denied := 0
	for i := range 400 {
		if r := take(t, s, claimOf("k", core.Every(5, time.Hour+time.Duration(i)*time.Second))); !r[0].Allowed {
			denied++
		}
	}
	if denied != 1 {
		t.Errorf("%d of 400 requests were denied, want the one that found the pair too large", denied)
	}
}
