package telemetry

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxKey is how many bytes of a key are remembered. Clients can send keys of any length.
const maxKey = 128

var seed = maphash.MakeSeed()

// A top is the keys that were denied most, in bounded memory, by Space-Saving: a new key takes the entry of the key with
// the lowest count, and adds to that count. So a count is never too low, and every key with more than 1/size of all
// denials has an entry. See A. Metwally, D. Agrawal, A. El Abbadi, Efficient Computation of Frequent and Top-k Elements
// in Data Streams, ICDT 2005.
type top struct {
	size  int
	index map[uint64]*entry
	heap  []*entry // by count, the lowest first
}

// An entry is one key of a top.
type entry struct {
	hash    uint64
	count   uint64
	over    uint64        // by how much count may be too high
	place   int           // in the heap
	key     []byte        // the first maxKey bytes
	length  int           // of the whole key
	line    time.Duration // of the last log line, since the start; 0: none was written
	pending uint64        // denials since, which no line accounts for

	// Of an overridden key: its limits, which never change, and the second of the last decision.
	limits []core.Limit
	second int64
}

// add counts a denial of key and returns its entry. If the entry belonged to another key before, evicted is how many
// denials of that key were pending.
func (t *top) add(key string) (e *entry, evicted uint64) {
	if t.index == nil {
		t.index = make(map[uint64]*entry, t.size)
	}
	hash := maphash.String(seed, key)
	e = t.index[hash]
	switch {
	case e != nil:
	case len(t.heap) < t.size:
		e = &entry{place: len(t.heap), key: make([]byte, 0, maxKey)}
		t.heap = append(t.heap, e)
		t.assign(e, hash, key)
		t.up(e.place)
	default:
		e = t.heap[0]
		delete(t.index, e.hash)
		evicted = e.pending
		e.over, e.line, e.pending = e.count, 0, 0
		t.assign(e, hash, key)
	}
	e.count++
	t.down(e.place)
	return e, evicted
}

// assign makes e the entry of key.
func (t *top) assign(e *entry, hash uint64, key string) {
	e.hash, e.length = hash, len(key)
	e.key = append(e.key[:0], key[:min(len(key), maxKey)]...)
	t.index[hash] = e
}

func (t *top) up(i int) {
	for i > 0 && t.heap[i].count < t.heap[(i-1)/2].count {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (t *top) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.heap); child++ {
			if t.heap[child].count < t.heap[least].count {
				least = child
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

func (t *top) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].place, t.heap[j].place = i, j
}

// most returns the n entries with the highest counts, the highest first.
func (t *top) most(n int) []*entry {
	all := slices.Clone(t.heap)
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(string(a.key), string(b.key)))
	})
	return all[:max(0, min(n, len(all)))]
}

// A Row is a key of Top or Overridden.
type Row struct {
	Key   string // masked, unless Options.Unmask is set
	ID    string // distinguishes keys with the same masked text, in this process; see FindKey
	Count uint64 // denials or decisions; never too low
	Over  uint64 // by how much Count may be too high
}

// Top returns the n keys that a rule denied most, the most denied first. It returns nil if the rule has denied nothing.
func (t *Telemetry) Top(rule string, n int) []Row {
	r := t.rules.Load().named(rule)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var rows []Row
	for _, e := range r.top.most(n) {
		rows = append(rows, t.rowOf(e))
	}
	return rows
}

func (t *Telemetry) rowOf(e *entry) Row {
	return Row{t.mask.key(e), t.mask.id(e.hash), e.count, e.over}
}

// FindKey returns the key of a Row, unmasked. It reports false if t no longer remembers the key, or if the key is
// longer than 128 bytes.
func (t *Telemetry) FindKey(rule, id string) (key string, ok bool) {
	r := t.rules.Load().named(rule)
	if r == nil {
		return "", false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overridden.mu.Lock()
	defer r.overridden.mu.Unlock()
	for _, e := range append(slices.Clone(r.top.heap), r.overridden.top.heap...) {
		if t.mask.id(e.hash) == id && e.length <= maxKey {
			return string(e.key), true
		}
	}
	return "", false
}
