package redisx

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// lately is for how long a pair counts as denied lately.
const lately = 10 * time.Second

// deniedPairs says which pairs were denied lately. It takes a pair for another one now and then: that costs a round trip. Only
// stores whose requests need several jobs fill it. The zero value is empty.
type deniedPairs struct {
	begun atomic.Pointer[deniedTable]
}

type deniedTable struct {
	seed  maphash.Seed
	begun time.Time
	cells [8192]atomic.Uint64 // half of the hash of a key, then the last denial in milliseconds since begun
}

// add takes note of the pairs that denied one of jobs.
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
	cell.Store(mark | uint64(uint32(now.Sub(t.begun).Milliseconds())))
}

// find returns half of the hash of a key, and its cell.
func (t *deniedTable) find(key string) (mark uint64, cell *atomic.Uint64) {
	h := maphash.String(t.seed, key)
	return h &^ (1<<32 - 1), &t.cells[h%uint64(len(t.cells))]
}

// anyOf reports whether a pair with one of keys was denied lately.
func (p *deniedPairs) anyOf(keys []string, now time.Time) bool {
	t := p.begun.Load()
	if t == nil {
		return false
	}
	for _, key := range keys {
		mark, cell := t.find(key)
		v := cell.Load()
		since := uint32(now.Sub(t.begun).Milliseconds()) - uint32(v)
		if v != 0 && v&^(1<<32-1) == mark && time.Duration(since)*time.Millisecond < lately {
			return true
		}
	}
	return false
}
