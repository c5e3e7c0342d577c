package core

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Claims that turn out to share a state only when they are placed, in a full store, are charged as their sum.
func TestClaimsThatComeToShareAState(t *testing.T) {
	m := MemoryStore{MaxKeys: 1}
	take := func(keys ...string) []Result {
		var claims []Claim
		for _, key := range keys {
			claims = append(claims, Claim{Key: key, Limits: []Limit{PerDay(5).Using(FixedWindow)}, Cost: 3})
		}
		results, err := m.Take(context.Background(), claims, nil)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	take("the only key with a state of its own")
	a, b := twoThatShare(&m)
	if results := take(a, b, "another"); results[0].Allowed || results[1].Allowed || !results[2].Allowed {
		t.Fatalf("got %+v; want two requests of 3 to exceed the 5 that both share", results)
	}
	for _, key := range []string{a, "another"} {
		if results := take(key); !results[0].Allowed || results[0].Remaining != 2 {
			t.Errorf("%s: %+v after a denial, want 3 to be admitted and 2 to remain", key, results)
		}
	}
}

// twoThatShare returns two keys that share a state in a full store.
func twoThatShare(m *MemoryStore) (a, b string) {
	seen := make(map[uint64]string)
	for i := 0; ; i++ {
		key := fmt.Sprint("key ", i)
		_, common := m.hash(&Claim{Key: key})
		if other, ok := seen[common]; ok {
			return other, key
		}
		seen[common] = key
	}
}

func TestTheMetersOfAShardAreUsedAgain(t *testing.T) {
	var m MemoryStore
	claims := []Claim{{Key: "k", Limits: []Limit{PerDay(1_000_000).Using(FixedWindow)}}}
	dst := make([]Result, 0, 1)
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := m.Take(context.Background(), claims, dst); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations for a decision, want none", allocations)
	}
}

// A store with room to spare does not fill up with what is idle.
func TestNewKeysMakeRoomForThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m MemoryStore
		for i := range 5000 {
			claims := []Claim{{Key: fmt.Sprint(i), Limits: []Limit{PerSecond(1000)}}}
			if _, err := m.Take(context.Background(), claims, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := m.pairs.Load(); n > 500 {
			t.Errorf("%d keys are kept of 5000, of which all but one are idle and all but 100 have been for 10s", n)
		}
	})
}

// Who comes again and again is known, though between two requests the bucket is empty and others are new.
func TestNewKeysLeaveBusyOnesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m MemoryStore
		take := func(key int) bool {
			claims := []Claim{{Key: fmt.Sprint(key), Limits: []Limit{PerSecond(1000)}}}
			_, known := m.takeOne(claims, nil)
			if !known {
				m.Take(context.Background(), claims, nil)
			}
			return known
		}
		for round := range 1000 {
			for key := range 10 {
				if known := take(key); known != (round > 0) {
					t.Fatalf("round %d: key %d is known: %v", round, key, known)
				}
				for n := range 5 {
					take(1000 + 50*round + 5*key + n)
				}
			}
			time.Sleep(time.Second)
		}
	})
}
