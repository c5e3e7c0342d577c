package core

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// takeOne reads the clock before it has the lock: meanwhile others may have decided.
func TestADecisionIsNotEarlierThanTheLastOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m MemoryStore
		claims := []Claim{{Key: "key", Limits: []Limit{PerSecond(1_000_000)}, Cost: 1000}}
		first, _, _ := m.Take(context.Background(), claims, nil)
		r := m.shard(m.id(&claims[0])).find(m.id(&claims[0]), kindOf(claims[0].Limits[0]))
		r.at += 100
		at, results, _ := m.Take(context.Background(), claims, nil)
		if at.Sub(first) != 100*time.Microsecond || results[0].Remaining != 998_000 {
			t.Errorf("decided %v later, %d remaining; want 100µs and 998000", at.Sub(first), results[0].Remaining)
		}
	})
}
