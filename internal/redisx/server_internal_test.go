package redisx

import (
	"strings"
	"testing"
	"time"
)

func TestReloadsAreBounded(t *testing.T) {
	var r reloads
	for _, step := range []struct {
		at  time.Duration
		due bool
	}{{0, true}, {0, false}, {reloadEvery - 1, false}, {reloadEvery, true}, {2*reloadEvery - 1, false}, {time.Hour, true}, {time.Hour + reloadEvery, true}} {
		if got := r.due(step.at); got != step.due {
			t.Errorf("at %v: got %v, want %v", step.at, got, step.due)
		}
	}
}

// The wall clock may be set: what is between two instants is monotonic.
func TestBeginningHasAMonotonicReading(t *testing.T) {
	if begun := New(nil, Options{}).begun.String(); !strings.Contains(begun, " m=") {
		t.Errorf("the store knows only the wall time of its beginning, %s", begun)
	}
}
