package core

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// What takeKnown refuses is decided all the same, so only time tells whether it takes what it is for.
func TestWhatTakeKnownTakes(t *testing.T) {
	const eight = "9/s, 9/2s, 9/3s, 9/4s, 9/5s, 9/6s, 9/7s, 9/8s"
	for _, row := range []struct {
		why, limits string
		pairs       int
		takes       bool
	}{
		{"one limit is for takeOne", "9/s", 1, false},
		{"two of a pair", "9/s, 9/m", 1, true},
		{"two pairs", "9/s", 2, true},
		{"as many limits as it takes", eight, 1, true},
		{"one more", eight + ", 9/m", 1, false},
		{"one more, of two pairs", "9/s, 9/2s, 9/3s, 9/4s, 9/5s", 2, false},
		{"as many pairs as it takes", "9/s", 4, true},
		{"one more", "9/s", 5, false},
		{"another algorithm", "9/s, 9/s;fixed-window", 1, false},
	} {
		var m MemoryStore
		var claims []Claim
		for i := range row.pairs {
			claims = append(claims, Claim{Key: fmt.Sprint(i), Limits: MustParseLimits(row.limits)})
		}
		if _, ok := m.takeKnown(claims, nil); ok {
			t.Errorf("%s: taken though nothing is known", row.why)
		}
		if _, err := m.Take(context.Background(), claims, nil); err != nil {
			t.Fatal(err)
		}
		results, ok := m.takeKnown(claims, nil)
		if ok != row.takes {
			t.Errorf("%s: taken: %t", row.why, ok)
		}
		for _, r := range results {
			if !r.Allowed || r.Remaining != 7 {
				t.Errorf("%s: %+v, want 7 remaining", row.why, r)
			}
		}
	}
}

// A pair has as many states as it was asked limits of different periods.
func TestTwoLimitsOfOneStateAmongMany(t *testing.T) {
	var m MemoryStore
	claim := func(limits ...Limit) []Claim { return []Claim{{Key: "key", Limits: limits}} }
	for n := range 70 {
		hours := time.Duration(n+1) * time.Hour
		m.Take(context.Background(), claim(Every(9, hours)), nil)
		if _, ok := m.takeKnown(claim(Every(9, hours), Every(8, hours)), nil); ok {
			t.Fatalf("two limits of one state, beside %d others: taken", n)
		}
	}
}

func TestAllPairsAreHeldAtOnce(t *testing.T) {
	limits := MustParseLimits("9/h")
	claims := []Claim{{Key: "a", Limits: limits}, {Key: "b", Limits: limits}, {Key: "c", Limits: limits}}
	var m MemoryStore
	m.Take(context.Background(), claims, nil)
	for i := range claims {
		s := m.shard(m.id(&claims[i]))
		s.Lock()
		decided := make(chan bool)
		go func() {
			m.takeKnown(claims, nil)
			close(decided)
		}()
		select {
		case <-decided:
			t.Errorf("decided though somebody held pair %d", i)
		case <-time.After(20 * time.Millisecond):
		}
		s.Unlock()
		<-decided
	}
}
