package redisx_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// A plain request is read by MGET, which is how the others cannot be taken for it. See lua/plan.lua.
func TestWhichRequestsArePlain(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for _, row := range []struct {
		why, limits string
		cost        int
		plain       bool
	}{
		{"one bucket", "10/m", 1, true},
		{"several of a pair", "10/s, 100/m", 1, true},
		{"all that a bucket holds", "10/m", 10, true},
		{"more than it ever holds is none", "10/m", 11, false},
		{"nor is a bucket that nothing drains", "0/m", 1, false},
		{"nor one of coarse ticks", "1000000/d", 1, false},
		{"nor another algorithm", "10/m;fixed-window", 1, false},
		{"nor both", "10/m, 10/m;sliding-window", 1, false},
	} {
		flush(t, client)
		c := claimOf("k", core.MustParseLimits(row.limits)...)
		c.Cost = row.cost
		mget, get := calls(t, client, "mget"), calls(t, client, "get")
		for range 3 { // of a key never seen, of one seen, and of one used up
			take(t, s, c)
		}
		if mget, get = calls(t, client, "mget")-mget, calls(t, client, "get")-get; row.plain != (mget == 3 && get == 0) || row.plain == (mget == 0) {
			t.Errorf("%s: read by %d MGET and %d GET", row.why, mget, get)
		}
	}
}

// What a plain request finds may be of other limits, from later, or spoilt. Whatever it is, it must lead to what it leads
// to if the same is asked in company of a peek, which is not plain.
func TestPlainRequestsAreDecidedLikeOthers(t *testing.T) {
	const minute = 60_000_000
	now := uint64(start.UnixMicro())
	values := []uint64{ // what tells one case from another: levels, instants and bounds
		0, 1, 10*minute/60 - 1, 10 * minute / 60, 10*minute/60 + 1, 70_000_000 - 1, 70_000_000, 550_000_000, 550_000_001, 600_000_000,
		now - 1<<32, now - 1<<32 + 1, now - 1<<32 + 2, now - 1, now, now + 1, 1 << 53, 1<<53 + 2, math.MaxUint64,
	}
	s, server := frozen(t)
	peek := claimOf("x", core.PerMinute(10))
	peek.Peek = true
	for _, limits := range []string{"10/m", "10/m, 5/h"} {
		l := core.MustParseLimits(limits)
		good := []uint64{now/1000 + 100_000}
		for i := range l {
			good = append(good, uint64(l[i].Period.Microseconds())<<4, now/1000+90_000, 500_000_000, now-1_000_000, now-2_000_000)
		}
		for i := range good {
			for _, v := range append(values, good[i]-1, good[i]+1) {
				server.FlushAll()
				bad := slices.Clone(good)
				bad[i] = v
				for _, key := range []string{"k", "o"} {
					if err := server.Set("spillgate:1:{"+key+"}:rule", words(bad...)); err != nil {
						t.Fatal(err)
					}
				}
				plain, other := take(t, s, claimOf("k", l...)), take(t, s, claimOf("o", l...), peek)
				if !slices.Equal(plain, other[:len(l)]) {
					t.Errorf("%s of %d:\n    got %+v\nin company %+v", limits, bad, plain, other)
				}
				a, b := stored(t, server, "k"), stored(t, server, "o")
				if a[word:] != b[word:] { // the first says only when it expires
					t.Errorf("%s of %d: stored\n           %x\nin company %x", limits, bad, a, b)
				}
			}
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
			if _, err := server.Push("spillgate:1:{"+key+"}:rule", "x"); err != nil {
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

func stored(t *testing.T, server *miniredis.Miniredis, key string) string {
	t.Helper()
	value, err := server.Get("spillgate:1:{" + key + "}:rule")
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// A script passes no more than some 8,000 keys to a command.
func TestARequestMayHaveManyKeys(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	claims := make([]core.Claim, 8001)
	for i := range claims {
		claims[i] = claimOf(fmt.Sprint(i), core.PerMinute(2))
	}
	if r := take(t, s, claims...); !allowed(r) || r[8000].Remaining != 1 {
		t.Errorf("denied, or not charged: %+v", r[8000])
	}
}
