package core

import (
	"net/http"
	"runtime"
	"testing"
	"time"
)

// The registry keeps no limiters, no stores and nothing whose size depends on their number.
func TestRegistryForgetsLimiters(t *testing.T) {
	key := func(*http.Request) (string, error) { return "k", nil }
	for range 1000 {
		Must(New([]Rule{PerMinute(1).By(key)}, WithStore(new(MemoryStore)), WithFallback(new(MemoryStore))))
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		sharers.mu.Lock()
		left := len(sharers.limiters)
		sharers.mu.Unlock()
		if left < 100 { // what is left belongs to other tests
			return
		}
	}
	t.Error("limiters that nothing uses are still registered")
}
