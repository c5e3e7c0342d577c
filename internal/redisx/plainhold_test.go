package redisx_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/redisx"
	"pgregory.net/rapid"
)

// A heldPair asks the same of two keys: k alone, which lua/decidehold.lua and lua/plainsettle.lua do if they can, and o in
// company of another claim, which is never plain.
type heldPair struct {
	store  *redisx.Store
	server *miniredis.Miniredis
	held   []core.Settlement // of claims of k that were admitted and not settled yet
}

// take decides c for both keys, and reports how the results differ.
func (p *heldPair) take(t rapid.TB, c core.Claim) {
	t.Helper()
	company := claimOf("x", core.PerMinute(10))
	company.Peek = true
	alone, err := p.store.Take(context.Background(), []core.Claim{keyed(c, "k")}, nil)
	other, otherErr := p.store.Take(context.Background(), []core.Claim{keyed(c, "o"), company}, nil)
	if err != nil || otherErr != nil {
		t.Fatal(err, otherErr)
	}
	if !slices.Equal(alone, other[:len(alone)]) {
		t.Fatalf("take of %+v:\n    got %+v\nin company %+v", c, alone, other)
	}
	if c.Hold && allowed(alone) {
		p.held = append(p.held, oracle.Settlement(c, alone[0].At))
	}
	p.compare(t)
}

// settle settles c for both keys, in company with a claim that was charged.
func (p *heldPair) settle(t rapid.TB, st core.Settlement) {
	t.Helper()
	company := core.Settlement{Rule: "rule", Key: "x", Limits: []core.Limit{core.PerHour(10).Using(core.FixedWindow)}, Cost: 1, Final: 2}
	st.Rule, st.Key = "rule", "k"
	alone, other := []core.Settlement{st}, []core.Settlement{st, company}
	other[0].Key = "o"
	for _, some := range [][]core.Settlement{alone, other} {
		if err := p.store.Settle(context.Background(), some); err != nil {
			t.Fatal(err)
		}
	}
	if !alone[0].At.Equal(other[0].At) {
		t.Fatalf("settle of %+v: held since %v, in company %v", st, alone[0].At, other[0].At)
	}
	p.compare(t)
}

// compare reports whether both keys have the same state, but for the first word of each field, the expiry.
func (p *heldPair) compare(t rapid.TB) {
	t.Helper()
	if alone, other := p.state("k"), p.state("o"); !maps.Equal(alone, other) {
		t.Fatalf("stored\n           %x\nin company %x", alone, other)
	}
}

func (p *heldPair) state(key string) map[string]string {
	state, key := make(map[string]string), "spillgate:2:{"+key+"}:rule"
	fields, err := p.server.HKeys(key)
	if err != nil {
		return state
	}
	for _, field := range fields {
		state[field] = p.server.HGet(key, field)[word:]
	}
	return state
}

func keyed(c core.Claim, key string) core.Claim {
	c.Rule, c.Key = "rule", key
	return c
}

func TestPlainHoldsAreDecidedLikeOthers(t *testing.T) {
	store, server := frozen(t)
	rapid.Check(t, func(t *rapid.T) {
		server.FlushAll()
		now, p := start, heldPair{store: store, server: server}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			wait := rapid.SampledFrom([]time.Duration{0, 0, time.Microsecond, time.Second, 7 * time.Second, 13 * time.Second, 60 * time.Second, -time.Second}).Draw(t, "wait")
			now = now.Add(wait)
			server.SetTime(now)
			c := core.Claim{Limits: core.MustParseLimits(rapid.SampledFrom([]string{"5/m", "5/m, 9/h", "3 at once, 5/m", "3 at once", "7/m"}).Draw(t, "limits"))}
			c.Cost = rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(t, "cost")
			c.Hold = rapid.IntRange(0, 9).Draw(t, "hold") > 0 || c.Limits[0].Algorithm == core.InFlight
			if verb := rapid.IntRange(0, 9).Draw(t, "verb"); verb < 5 || len(p.held) == 0 {
				p.take(t, c)
			} else {
				i := rapid.IntRange(0, len(p.held)-1).Draw(t, "which")
				one := p.held[i]
				one.Final, one.Renew = rapid.SampledFrom([]int{0, 1, 1, 2, 9, math.MaxInt}).Draw(t, "final"), verb == 9
				if !one.Renew {
					p.held = slices.Delete(p.held, i, i+1)
				}
				p.settle(t, one)
			}
		}
	})
}

// The field hold may be corrupt, from the future or ended.
func TestPlainHoldsReadAnyFieldLikeOthers(t *testing.T) {
	now := uint64(start.UnixMicro())
	store, server := frozen(t)
	const width, life = 6_000_000, 66_000_000
	good := []uint64{now/1000 + 70_000, 3, 3, now - width, 1, 1, now, 2, 2}
	try := func(hold string) {
		server.FlushAll()
		for _, key := range []string{"k", "o"} {
			server.HSet("spillgate:2:{"+key+"}:rule", "hold", hold)
		}
		p, c := heldPair{store: store, server: server}, core.Claim{Limits: core.MustParseLimits("6 at once, 6/m"), Hold: true, Cost: 1}
		p.take(t, c)
		for _, at := range []time.Duration{0, -width * time.Microsecond, -2 * width * time.Microsecond, -1, width * time.Microsecond} {
			st := oracle.Settlement(c, start.Add(at))
			st.Final = 1
			p.settle(t, st)
		}
		st := oracle.Settlement(c, time.Time{})
		st.Final = 1
		p.settle(t, st)
	}
	values := []uint64{0, 1, 2, 6, 7, now - life - 1, now - life, now - life + 1, now - width - 1, now - width + 1, now - 1, now, now + 1, now + width, 1 << 53, 1<<53 + 2, math.MaxUint64 >> 1}
	for i := range good {
		for _, v := range values {
			bad := slices.Clone(good)
			bad[i] = v
			try(words(bad...))
		}
	}
	for _, length := range []int{0, 1, 2, 3, 4, 6, 9} {
		try(words(good...)[:word*length])
	}
	try(words(good...) + "x")
	try(words(good[:6]...) + "x" + words(good[6:]...))
	try(words(good[0], 3, 3, now-width, 1, 1, now>>16, 2, 2)) // of which some bytes further on make sense
}

// A settlement may find no hold, or state that is not plain.
func TestPlainSettlementsDoWhatOthersDo(t *testing.T) {
	now := uint64(start.UnixMicro())
	store, server := frozen(t)
	limits := core.MustParseLimits("10/m")
	for _, bucket := range [][]uint64{
		{now/1000 + 100_000, 500_000_000, now - 1_000_000, now - 2_000_000, 10, 0}, {now/1000 + 100_000, 500_000_000, now + 1, now, 10, 0},
		{now/1000 + 100_000, 500_000_000, now, now, 9, 0}, {now/1000 + 100_000, 1<<53 - 100_000_000, now, now, 10, 0}, {now / 1000, 5},
	} {
		for final := range 4 {
			server.FlushAll()
			p := heldPair{store: store, server: server}
			c := core.Claim{Limits: limits, Hold: true, Cost: 1}
			st := oracle.Settlement(c, time.Time{})
			st.Final = final
			for _, key := range []string{"k", "o"} {
				server.HSet("spillgate:2:{"+key+"}:rule", fieldOf(limits[0]), words(bucket...))
			}
			p.settle(t, st)
			st.At = start
			p.settle(t, st)
			p.take(t, c)
			p.settle(t, st)
			if err := store.Settle(context.Background(), []core.Settlement{{Rule: "rule", Key: "k", Ban: time.Minute}, {Rule: "rule", Key: "o", Ban: time.Minute}}); err != nil {
				t.Fatal(err)
			}
			p.take(t, c)
			p.settle(t, st)
		}
	}
}

// A field hold must not be left behind, or grow with the number of holds.
func TestHoldsOfASubBucketAreOneRecord(t *testing.T) {
	for _, limits := range []string{"100/m", "100/m;fixed-window"} {
		store, server := frozen(t)
		c := core.Claim{Rule: "rule", Key: "k", Limits: core.MustParseLimits(limits), Hold: true, Cost: 1}
		for range 50 {
			take(t, store, c)
		}
		if n := len(server.HGet(pairKey, "hold")); n != 6*word {
			t.Errorf("%s: 50 holds take %d bytes, want %d", limits, n, 6*word)
		}
		for range 50 {
			if !slices.Contains(must(server.HKeys(pairKey))(t), "hold") {
				t.Fatalf("%s: the field hold is gone too early", limits)
			}
			if err := store.Settle(context.Background(), settledAt(start, c)); err != nil {
				t.Fatal(err)
			}
		}
		if server.Exists(pairKey) {
			t.Errorf("%s: fields are left: %v", limits, must(server.HKeys(pairKey))(t))
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
