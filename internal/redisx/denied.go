package redisx

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

const (
	// recent is how long a pair counts as recently denied.
	recent = 10 * time.Second

	// settled is how long ago the first denial of a pair must have been for another denial to count as lasting, because
	// a pair may be denied for a cost that another request is about to give back.
	settled = 100 * time.Millisecond
)

// deniedPairs records which pairs were denied recently. It sometimes confuses two pairs, which costs a round trip. Only
// stores whose requests need several jobs use it. The zero value is empty.
type deniedPairs struct {
	begun atomic.Pointer[deniedTable]
}

type deniedTable struct {
	seed  maphash.Seed
	begun time.Time
	cells [8192]atomic.Uint64 // half of the hash of a key, then its first recent denial in milliseconds since begun
}

// add records the pairs that denied one of jobs.
func (p *deniedPairs) add(jobs []job, now time.Time) {
	for i := range jobs {
		j := &jobs[i]
		for n := range j.usages {
			if a := &j.request.asks[j.asks[n]]; j.usages[n].retry != 0 && !a.dryRun {
				p.addKey(j.request.keys[a.key], now)
			}
		}
	}
}

func (p *deniedPairs) addKey(key string, now time.Time) {
	t := p.begun.Load()
	if t == nil {
		p.begun.CompareAndSwap(nil, &deniedTable{seed: maphash.MakeSeed(), begun: now.Add(-time.Millisecond)})
		t = p.begun.Load()
	}
	mark, cell := t.find(key)
	if age, ok := t.age(mark, cell, now); !ok || age > recent/2 {
		cell.Store(mark | uint64(uint32(now.Sub(t.begun).Milliseconds())))
	}
}

// find returns half of the hash of a key, and its cell.
func (t *deniedTable) find(key string) (mark uint64, cell *atomic.Uint64) {
	h := maphash.String(t.seed, key)
	return h &^ (1<<32 - 1), &t.cells[h%uint64(len(t.cells))]
}

// age returns how long ago the pair with a mark was first denied, and whether that was recently.
func (t *deniedTable) age(mark uint64, cell *atomic.Uint64, now time.Time) (time.Duration, bool) {
	v := cell.Load()
	age := time.Duration(uint32(now.Sub(t.begun).Milliseconds())-uint32(v)) * time.Millisecond
	return age, v != 0 && v&^(1<<32-1) == mark && age < recent
}

// anyOf reports whether a pair with one of keys was denied recently, but at least ago before now.
func (p *deniedPairs) anyOf(keys []string, now time.Time, ago time.Duration) bool {
	t := p.begun.Load()
	if t == nil {
		return false
	}
	for _, key := range keys {
		mark, cell := t.find(key)
		if age, ok := t.age(mark, cell, now); ok && age >= ago {
			return true
		}
	}
	return false
}
