package memory

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// ids returns n distinct ids, of one shard.
func ids(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = rand.Uint64()>>shardBits | 1
	}
	return list
}

// check compares a table with the pairs of id and kind that it holds.
func (t *table) check(tt *testing.T, want map[[2]uint64]bool) {
	tt.Helper()
	var in []record
	for i, r := range t.records {
		if r.Pair == 0 {
			continue
		}
		in = append(in, r)
		if !want[[2]uint64{r.Pair, r.Kind}] || t.find(r.Pair, r.Kind) != &t.records[i] {
			tt.Fatalf("record %d, of pair %x, does not belong there", i, r.Pair)
		}
	}
	if len(in) != len(want) || t.count != len(want) || t.records[len(t.records)-1].Pair != 0 {
		tt.Fatalf("%d records, counted as %d, want %d and an unused one at the end", len(in), t.count, len(want))
	}
	if !slices.IsSortedFunc(in, func(a, b record) int { return cmp.Compare(b.Pair, a.Pair) }) {
		tt.Fatal("the records are out of order")
	}
}

func TestTableFindsItsRecords(t *testing.T) {
	var tab table
	want := make(map[[2]uint64]bool)
	keys := ids(300)
	for n := range 20_000 {
		id, kind := keys[rand.IntN(len(keys))], rand.Uint64N(3)<<4
		switch r := tab.find(id, kind); {
		case want[[2]uint64{id, kind}] != (r != nil):
			t.Fatalf("call %d: found %t", n, r != nil)
		case r != nil:
			tab.remove(slices.IndexFunc(tab.records, func(x record) bool { return x == *r }))
			delete(want, [2]uint64{id, kind})
		default:
			tab.insert(id, kind)
			want[[2]uint64{id, kind}] = true
		}
		if n%100 == 0 {
			tab.check(t, want)
		}
	}
}

// The smallest id has the last home, and all records of a pair have the same home.
func TestTableWrapsRoundAtItsEnd(t *testing.T) {
	for _, n := range []uint64{tail - 1, tail, tail + 1, 10 * tail, 1000} {
		var tab table
		want := make(map[[2]uint64]bool)
		for kind := range n {
			tab.insert(1, kind<<4)
			want[[2]uint64{1, kind << 4}] = true
		}
		tab.check(t, want)
	}
}

func TestRecordTakesAtMost48Bytes(t *testing.T) {
	const size = 40
	var tab table
	for n, id := range ids(20_000) {
		tab.insert(id, 0)
		if bytes := float64(len(tab.records)*size) / float64(n+1); n > 2000 && bytes > 48 {
			t.Fatalf("%d records take %.1f bytes each", n+1, bytes)
		}
	}
}
