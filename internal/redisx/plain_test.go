package redisx_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// A plain request may find state of other limits, state from the future, or corrupt state. It must be decided as the same request
// in company of a peek is, which is not plain.
func TestPlainRequestsAreDecidedLikeOthers(t *testing.T) {
	const minute = 60_000_000
	now := uint64(start.UnixMicro())
	values := []uint64{ // levels, instants and bounds at which a decision changes
		0, 1, 10*minute/60 - 1, 10 * minute / 60, 10*minute/60 + 1, 70_000_000 - 1, 70_000_000, 550_000_000, 550_000_001, 600_000_000,
		now - 1<<32, now - 1<<32 + 1, now - 1<<32 + 2, now - 1, now, now + 1, 1 << 53, 1<<53 + 2, math.MaxUint64,
	}
	s, server := frozen(t)
	peek := claimOf("x", core.PerMinute(10))
	peek.Peek = true
	for _, limits := range []string{"10/m", "10/m, 5/h"} {
		l := core.MustParseLimits(limits)
		for field := range l {
			good := []uint64{now/1000 + 100_000, 500_000_000, now - 1_000_000, now - 2_000_000, uint64(l[field].Rate), 0}
			for i := range good {
				for _, v := range append(values, good[i]-1, good[i]+1) {
					server.FlushAll()
					bad := slices.Clone(good)
					bad[i] = v
					for _, key := range []string{"k", "o"} {
						server.HSet("spillgate:2:{"+key+"}:rule", fieldOf(l[field]), words(bad...))
					}
					plain, other := take(t, s, claimOf("k", l...)), take(t, s, claimOf("o", l...), peek)
					if !slices.Equal(plain, other[:len(l)]) {
						t.Errorf("%s of %d:\n    got %+v\nin company %+v", limits, bad, plain, other)
					}
					for _, limit := range l {
						a, b := stored(server, "k", limit), stored(server, "o", limit)
						if a[word:] != b[word:] { // but for the first word, the expiry
							t.Errorf("%s of %d: stored\n           %x\nin company %x", limits, bad, a, b)
						}
					}
				}
			}
		}
	}
}

// A level is replied where other replies have a code: no level may be read as one of those.
func TestPlainDenialsOfAnyLevelAreReadAsLevels(t *testing.T) {
	s, server := frozen(t)
	now := uint64(start.UnixMicro())
	peek := claimOf("x", core.PerMinute(10))
	peek.Peek = true
	limits := core.MustParseLimits("10/m, 5/h")
	for level := range uint64(8) {
		server.FlushAll()
		for _, key := range []string{"k", "o"} {
			server.HSet("spillgate:2:{"+key+"}:rule", fieldOf(limits[0]), words(now/1000+100_000, level, now, now, 10, 0))
			server.HSet("spillgate:2:{"+key+"}:rule", fieldOf(limits[1]), words(now/1000+100_000, 5*3_600_000_000, now, now, 5, 0))
		}
		plain, other := take(t, s, claimOf("k", limits...)), take(t, s, claimOf("o", limits...), peek)
		if !slices.Equal(plain, other[:2]) {
			t.Errorf("level %d:\n    got %+v\nin company %+v", level, plain, other)
		}
	}
}

func TestPlainRequestsRepairLikeOthers(t *testing.T) {
	s, server := frozen(t)
	peek := claimOf("x", core.PerMinute(10))
	peek.Peek = true
	for _, limits := range []string{"10/m", "10/m, 5/h"} {
		server.FlushAll()
		l := core.MustParseLimits(limits)
		for _, key := range []string{"k", "o"} {
			if _, err := server.Push("spillgate:2:{"+key+"}:rule", "x"); err != nil {
				t.Fatal(err)
			}
		}
		plain, other := take(t, s, claimOf("k", l...)), take(t, s, claimOf("o", l...), peek)
		if plain[0].Allowed || !slices.Equal(plain, other[:len(l)]) {
			t.Errorf("%s of a list:\n    got %+v\nin company %+v", limits, plain, other)
		}
	}
}

const word = 8

// fieldOf returns the name of the field of a limit.
func fieldOf(l core.Limit) string {
	return string("bwsl"[l.Algorithm]) + strconv.FormatInt(l.Period.Microseconds(), 10)
}

// stored returns the field of a limit of a pair, or zeros if there is none.
func stored(server *miniredis.Miniredis, key string, l core.Limit) string {
	if value := server.HGet("spillgate:2:{"+key+"}:rule", fieldOf(l)); value != "" {
		return value
	}
	return words(0)
}

// A script passes no more than some 8,000 keys to a command.
func TestRequestMayHaveManyKeys(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	claims := make([]core.Claim, 8001)
	for i := range claims {
		claims[i] = claimOf(fmt.Sprint(i), core.PerMinute(2))
	}
	if r := take(t, s, claims...); !allowed(r) || r[8000].Remaining != 1 {
		t.Errorf("denied, or not charged: %+v", r[8000])
	}
}

// The limits of a pair may be those of two claims, with a claim of another pair between them.
func TestPlainClaimsOfOnePairNeedNotBeNeighbours(t *testing.T) {
	s, _ := frozen(t)
	claims := []core.Claim{claimOf("k", core.PerMinute(10)), claimOf("j", core.PerMinute(10)), claimOf("k", core.PerHour(10))}
	claims[2].Cost = 3
	for i := range 3 {
		r := take(t, s, claims...)
		if r[0].Remaining != 9-i || r[1].Remaining != 9-i || r[2].Remaining != 7-3*i {
			t.Fatalf("request %d: %+v", i, r)
		}
	}
}

// The limits of each pair of a request are charged once, and stored with that pair.
func TestPlainPairsOfOneRequestAreStoredApart(t *testing.T) {
	s, server := frozen(t)
	claims := []core.Claim{claimOf("k", core.PerMinute(10), core.PerHour(20)), claimOf("j", core.PerMinute(30), core.PerDay(40))}
	for i := range 3 {
		r := take(t, s, claims...)
		for n, capacity := range []int{10, 20, 30, 40} {
			if want := capacity - 1 - i; r[n].Remaining != want {
				t.Fatalf("request %d, limit %d: %d remain, want %d", i, n, r[n].Remaining, want)
			}
		}
	}
	for _, c := range claims {
		fields, err := server.HKeys("spillgate:2:{" + c.Key + "}:rule")
		want := []string{fieldOf(c.Limits[0]), fieldOf(c.Limits[1])}
		slices.Sort(fields)
		slices.Sort(want)
		if err != nil || !slices.Equal(fields, want) {
			t.Errorf("%s has %v, want %v: %v", c.Key, fields, want, err)
		}
	}
}
