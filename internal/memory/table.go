package memory

import (
	"math/bits"
	"slices"

	"github.com/spillgate/spillgate/internal/algorithm"
)

type record = algorithm.Record

// A table finds records by the id of their pair. It is open addressing with linear probing, in one piece of memory: a
// look-up among millions waits for memory once. Larger ids come first, so a look-up ends at the first id that is not
// larger, the records of a pair lie side by side, and growing is one pass. An insertion or a removal moves others.
type table struct {
	records []record // unused ones have Pair 0; the last is always unused
	homes   uint64   // where runs can begin
	count   int      // records in use
}

const (
	fullest  = 12 // a table of 12·n homes takes 11·n records; a look-up then passes some five others
	growth   = 16 // it grows by one part in 16, so that a record takes at most 48 bytes
	smallest = 8  // homes of a small table
	tail     = 24 // records for what runs over the last home; a small table is 1,280 bytes, a size class of the allocator
)

// home returns where the run of id begins. The top bits of id have chosen the shard.
func (t *table) home(id uint64) int {
	hi, _ := bits.Mul64(^id<<shardBits, t.homes)
	return int(hi)
}

// of returns the records of a pair, and where they begin, or would.
func (t *table) of(id uint64) (run []record, first int) {
	first = t.home(id)
	for first < len(t.records) && t.records[first].Pair > id {
		first++
	}
	end := first
	for end < len(t.records) && t.records[end].Pair == id {
		end++
	}
	return t.records[first:end], first
}

// find returns the first record of a pair that is of a kind, or nil.
func (t *table) find(id, kind uint64) *record {
	run, _ := t.of(id)
	if i := slices.IndexFunc(run, func(r record) bool { return r.Is(kind) }); i >= 0 {
		return &run[i]
	}
	return nil
}

func (t *table) insert(id, kind uint64) *record {
	if fullest*uint64(t.count+1) > (fullest-1)*t.homes {
		t.grow()
	}
	run, i := t.of(id)
	if kind != algorithm.CellsKind { // which comes before the states of limits
		i += len(run)
	}
	end := i
	for t.records[end].Pair != 0 {
		end++
	}
	if end == len(t.records)-1 { // many records belong to the last homes
		t.records = slices.Concat(t.records, make([]record, tail))
	}
	copy(t.records[i+1:end+1], t.records[i:end])
	t.records[i] = record{Pair: id, Kind: kind}
	t.count++
	return &t.records[i]
}

func (t *table) grow() {
	old := t.records
	t.homes += t.homes/growth + smallest
	t.records = make([]record, t.homes+tail)
	next := 0
	for i := range old {
		if old[i].Pair == 0 {
			continue
		}
		next = max(next, t.home(old[i].Pair))
		t.records[next] = old[i]
		if next++; next == len(t.records)-1 {
			t.records = append(t.records, make([]record, tail)...)
		}
	}
}

func (t *table) remove(i int) {
	end := i + 1
	for t.records[end].Pair != 0 && t.home(t.records[end].Pair) < end {
		end++
	}
	copy(t.records[i:], t.records[i+1:end])
	t.records[end-1] = record{}
	t.count--
}
