package core

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The clock is read before the lock is had: meanwhile others may have decided.
func TestADecisionIsNotEarlierThanTheLastOfItsKey(t *testing.T) {
	limits := []Limit{PerSecond(1_000_000), PerMinute(60_000_000)}
	for n := range limits {
		synctest.Test(t, func(t *testing.T) {
			var m MemoryStore
			claims := []Claim{{Key: "key", Limits: limits[:n+1], Cost: 1000}}
			first, _ := m.Take(context.Background(), claims, nil)
			r := m.shard(m.id(&claims[0])).find(m.id(&claims[0]), kindOf(limits[n]))
			r.at += 100
			results, _ := m.Take(context.Background(), claims, nil)
			if at := results[n].At; at.Sub(first[n].At) != 100*time.Microsecond || results[n].Remaining != limits[n].Rate-2000 {
				t.Errorf("decided %v later, %+v; want 100µs and 2000 used", at.Sub(first[n].At), results[n])
			}
		})
	}
}
