package core_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

const (
	manyKeys    = 1_000_000 // as many as a store has room for by default
	floodKeys   = 5 * manyKeys
	bytesPerKey = 48
)

func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestFloodKeepsTheHeapBounded(t *testing.T) {
	testpass.Thorough(t)
	before := heap()
	m := new(core.MemoryStore)
	flood(m, manyKeys)
	filled := heap()
	flood(m, floodKeys)
	expect.AtMost(t, heap()-filled, 1<<20, "%d keys took %d bytes, and %d more", manyKeys, filled-before, floodKeys-manyKeys)
	runtime.KeepAlive(m)
}

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
	expect.AtMost(t, (heap()-before)/manyKeys, bytesPerKey, "bytes per key")
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
		expect.AtMost(t, (heap()-before)/keys, most, "%s: bytes for each pair", limits)
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
					must.True(t, admits(m, one(fmt.Sprint(round, k), limits...)), "round %d, request %d of key %d denied", round, i, k)
				}
			}
			time.Sleep(4 * time.Second)
			if round == 1 {
				second = heap()
			}
		}
		expect.AtMost(t, heap()-second, second/10, "the heap grew by from %d in 8 rounds", second)
		runtime.KeepAlive(m)
	})
}

func TestTakeOnAKnownKeyAllocatesNothing(t *testing.T) {
	var m core.MemoryStore
	claims := append(one("key", algorithms...), one("other", core.PerSecond(1))...)
	results := make([]core.Result, 0, 8)
	for _, cost := range []int{1, 1000} { // admitted at first, and denied
		claims[0].Cost = cost
		n := testing.AllocsPerRun(50, func() { must.Get(m.Take(context.Background(), claims, results[:0]))(t) })
		expect.Equal(t, n, 0, "cost %d: allocations", cost)
	}
}

// full returns a store with as many keys as it may have, that each has used its one request an hour.
func full(maxKeys int) *core.MemoryStore {
	m := &core.MemoryStore{MaxKeys: maxKeys}
	for i := range maxKeys {
		admits(m, one("first"+strconv.Itoa(i), core.PerHour(1)))
	}
	return m
}

var algorithmsPerSecond = core.MustParseLimits("3/s, 3/s;fixed-window, 3/s;sliding-window, 3/s;sliding-log")

func TestFloodEvictsNoDeniedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := full(500)
		for i := range 20_000 {
			admits(m, one("flood"+strconv.Itoa(i), core.PerHour(1)))
		}
		for i := range 500 {
			must.True(t, !admits(m, one("first"+strconv.Itoa(i), core.PerHour(1))), "key %d was forgotten", i)
		}
	})
}

func TestFloodGivesNoKeyASecondAllowance(t *testing.T) {
	testpass.Sequential(t)
	for _, algorithm := range []core.Algorithm{core.TokenBucket, core.FixedWindow, core.SlidingWindow, core.SlidingLog} {
		t.Run(algorithm.String(), inBubble(func(t *testing.T) {
			m := &core.MemoryStore{MaxKeys: 500}
			admitted := make([]int, 3000)
			for round := range 12 {
				// Keys that have drained by the next round make room: some keys of the flood get states of their own.
				for i := range 300 * (1 - round%2) {
					admits(m, one(fmt.Sprint("brief", round, i), core.PerMinute(1)))
				}
				for _, i := range rand.Perm(len(admitted)) {
					if admits(m, one(strconv.Itoa(i), core.PerHour(3).Using(algorithm))) {
						admitted[i]++
					}
				}
				time.Sleep(4 * time.Minute)
			}
			most := 3 // in 45 minutes from the beginning of an hour
			if algorithm == core.TokenBucket {
				most += 2 // one drains in 20 minutes
			}
			for i, n := range admitted {
				must.True(t, n <= most, "key %d: %d admitted", i, n)
			}
		}))
	}
}

func TestIdleKeysMakeRoomBeforeAnyAreShared(t *testing.T) {
	testpass.Sequential(t)
	synctest.Test(t, func(t *testing.T) {
		m := &core.MemoryStore{MaxKeys: 1000}
		for i := range 200 {
			admits(m, one("live"+strconv.Itoa(i), core.PerHour(1)))
		}
		for round := range 10 {
			for i := range 800 {
				key := fmt.Sprint("brief", round, "-", i)
				for n := range 4 {
					must.Equal(t, admits(m, one(key, algorithmsPerSecond...)), n < 3, "round %d, key %d, request %d: admitted, though there was room", round, i, n)
				}
			}
			time.Sleep(3 * time.Second)
		}
		for i := range 200 {
			must.True(t, !admits(m, one("live"+strconv.Itoa(i), core.PerHour(1))), "live key %d was forgotten", i)
		}
	})
}

func TestKeysThatShareAreDeniedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := full(10)
		n := 0
		for i := range 50_000 {
			if admits(m, one("flood"+strconv.Itoa(i), core.PerHour(1))) {
				n++
			}
		}
		expect.True(t, n != 0 && n <= 4096, "%d of a flood admitted, want at most one for each of 4096 shared states", n)
		others := 0
		for rule := range 3 { // one in 2048 pairs of rules share their states
			c := one("key", core.PerHour(1))
			c[0].Rule = strconv.Itoa(rule)
			if admits(m, c) {
				others++
			}
		}
		expect.NotEqual(t, others, 0, "other rules share the states of the one that is flooded")
	})
}

// A decision that makes room for a new key must not drop the other keys of its request.
func TestFullStoreKeepsTheKeysOfTheCurrentTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &core.MemoryStore{MaxKeys: 1}
		idle := one("idle", core.PerSecond(1))
		admits(m, idle)
		for i := range 100 {
			time.Sleep(2 * time.Second)
			must.True(t, admits(m, append(one("new"+strconv.Itoa(i), core.PerHour(1000)), idle...)) && !admits(m, idle),
				"round %d: the idle key was charged nothing, or too much", i)
		}
	})
}
