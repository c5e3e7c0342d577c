package redisx

import (
	"testing"
	"time"
)

// Something is missing until the store says that nothing is.
func TestAWaitIsAtLeastAMicrosecond(t *testing.T) {
	for at, want := range map[int64]time.Duration{0: 1000, 100: 1000, 101: 1000, 1100: 1000, 1101: 2000, 5100: 5000} {
		if got := until(at, 100); got != want {
			t.Errorf("from 100 until %d: %v, want %v", at, got, want)
		}
	}
	if got := until(later(1, 1<<62), 1); got < 24*365*time.Hour {
		t.Errorf("a wait of for ever is %v", got)
	}
}
