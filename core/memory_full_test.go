package core_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

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
			if admits(m, one("first"+strconv.Itoa(i), core.PerHour(1))) {
				t.Fatalf("key %d was forgotten", i)
			}
		}
	})
}

func TestFloodGivesNoKeyASecondAllowance(t *testing.T) {
	for _, algorithm := range []core.Algorithm{core.TokenBucket, core.FixedWindow, core.SlidingWindow, core.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
					if n > most {
						t.Fatalf("key %d: %d admitted", i, n)
					}
				}
			})
		})
	}
}

func TestIdleKeysMakeRoomBeforeAnyAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &core.MemoryStore{MaxKeys: 1000}
		for i := range 200 {
			admits(m, one("live"+strconv.Itoa(i), core.PerHour(1)))
		}
		for round := range 10 {
			for i := range 800 {
				key := fmt.Sprint("brief", round, "-", i)
				for n := range 4 {
					if got := admits(m, one(key, algorithmsPerSecond...)); got != (n < 3) {
						t.Fatalf("round %d, key %d, request %d: admitted %t, though there was room", round, i, n, got)
					}
				}
			}
			time.Sleep(3 * time.Second)
		}
		for i := range 200 {
			if admits(m, one("live"+strconv.Itoa(i), core.PerHour(1))) {
				t.Fatalf("live key %d was forgotten", i)
			}
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
		if n == 0 || n > 4096 {
			t.Errorf("%d of a flood admitted, want at most one for each of 4096 shared states", n)
		}
		others := 0
		for rule := range 3 { // one in 2048 pairs of rules share their states
			c := one("key", core.PerHour(1))
			c[0].Rule = strconv.Itoa(rule)
			if admits(m, c) {
				others++
			}
		}
		if others == 0 {
			t.Error("other rules share the states of the one that is flooded")
		}
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
			if !admits(m, append(one("new"+strconv.Itoa(i), core.PerHour(1000)), idle...)) || admits(m, idle) {
				t.Fatalf("round %d: the idle key was charged nothing, or too much", i)
			}
		}
	})
}
