package core_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestFloodKeepsTheHeapBounded(t *testing.T) {
	testpass.Thorough(t)
	before := heap()
	m := &core.MemoryStore{MaxKeys: floodMax}
	keys := floodMax
	if keys == 0 {
		keys = 1_000_000
	}
	flood(m, keys)
	filled := heap()
	flood(m, floodKeys)
	if grown := heap() - filled; grown > 1<<20 {
		t.Errorf("%d keys took %d bytes, and %d more %d", keys, filled-before, floodKeys-keys, grown)
	}
	runtime.KeepAlive(m)
}

// flood takes once for each of n keys.
func flood(m *core.MemoryStore, n int) {
	claims := one("", core.PerHour(1))
	var key [8]byte
	for i := range n {
		claims[0].Key = string(strconv.AppendInt(key[:0], int64(i), 10))
		admits(m, claims)
	}
}

func TestHeapPerKey(t *testing.T) {
	testpass.Thorough(t)
	before := heap()
	m := &core.MemoryStore{MaxKeys: manyKeys}
	flood(m, manyKeys)
	if each := (heap() - before) / manyKeys; each > bytesPerKey {
		t.Errorf("%d bytes per key, want at most %d", each, bytesPerKey)
	}
	runtime.KeepAlive(m)
}

// The sizes are those that the comment of MaxKeys states, and what the slabs have in reserve.
func TestHeapPerLimit(t *testing.T) {
	testpass.Thorough(t)
	const keys = manyKeys / 20
	for limits, most := range map[string]int64{
		"1/h, 2/2h, 3/3h, 4/4h, 5/5h, 6/6h, 7/7h, 8/8h": 8 * (bytesPerKey + 4),
		"99/h;sliding-log": bytesPerKey + 96 + 20*32,
		"1/h;sliding-log":  bytesPerKey + 96 + 32, // one request is admitted
	} {
		before := heap()
		m := new(core.MemoryStore)
		claims := one("", core.MustParseLimits(limits)...)
		for round := range 20 {
			if len(claims[0].Limits) > 1 && round > 0 {
				break
			}
			for i := range keys {
				claims[0].Key = strconv.Itoa(i)
				admits(m, claims)
			}
			time.Sleep(2 * time.Microsecond)
		}
		if each := (heap() - before) / keys; each > most {
			t.Errorf("%s: %d bytes for each pair, want at most %d", limits, each, most)
		}
		runtime.KeepAlive(m)
	}
}

func TestDroppedKeysFreeWhatTheyRemember(t *testing.T) {
	testpass.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		m := &core.MemoryStore{MaxKeys: 500}
		limits := core.MustParseLimits("50/s;sliding-log, 50/2s;sliding-window;buckets=50")
		var second int64
		for round := range 10 {
			for i := range 50 {
				time.Sleep(time.Millisecond)
				for k := range 500 {
					if !admits(m, one(fmt.Sprint(round, k), limits...)) {
						t.Fatalf("round %d, request %d of key %d denied", round, i, k)
					}
				}
			}
			time.Sleep(4 * time.Second)
			if round == 1 {
				second = heap()
			}
		}
		if grown := heap() - second; grown > second/10 {
			t.Errorf("the heap grew by %d from %d in 8 rounds", grown, second)
		}
		runtime.KeepAlive(m)
	})
}

func TestTakeOnAKnownKeyAllocatesNothing(t *testing.T) {
	var m core.MemoryStore
	claims := append(one("key", algorithms...), one("other", core.PerSecond(1))...)
	results := make([]core.Result, 0, 8)
	for _, cost := range []int{1, 1000} { // admitted at first, and denied
		claims[0].Cost = cost
		n := testing.AllocsPerRun(50, func() {
			if _, err := m.Take(context.Background(), claims, results[:0]); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("cost %d: %v allocations", cost, n)
		}
	}
}
