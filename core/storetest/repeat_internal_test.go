package storetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestRowThatFailsIsRepeatedIfTheMachineHasStalled(t *testing.T) {
	turn := func(s *suite) { s.last = s.first.Add(24 * time.Hour) }
	for name, tt := range map[string]struct {
		run     func(*suite)
		repeats bool
	}{
		"not at all":               {func(*suite) {}, false},
		"but for a moment":         {func(*suite) { time.Sleep(calm) }, false},
		"for longer":               {func(*suite) { time.Sleep(calm + 1) }, true},
		"while the row slept":      {func(s *suite) { s.pause(time.Hour) }, false},
		"a day has ended":          {turn, true},
		"in a row of many callers": {func(s *suite) { turn(s); s.each(func() {}) }, false},
		"in a row about contexts":  {func(s *suite) { turn(s); s.wantReturns() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := Harness{New: func(*testing.T) core.Store { return new(core.MemoryStore) }, Advance: time.Sleep}
				runs := 0
				h.repeat(t, row{run: func(s *suite) {
					runs++
					s.expect(words("yes 4"), claim("key", "5/d", 1))
					if tt.run(s); s.disturbed() != (tt.repeats && runs < maxAttempts) {
						t.Errorf("run %d: repeatable %t, want %t", runs, s.disturbed(), tt.repeats)
					}
					if s.disturbed() {
						s.Fatalf("this was disturbed")
					}
				}})
				if want := map[bool]int{false: 1, true: maxAttempts}[tt.repeats]; runs != want {
					t.Errorf("%d runs, want %d", runs, want)
				}
			})
		})
	}
}

func TestLatenessOfACallIsExactOnAMachineThatDoesNotStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &suite{T: t}
		for _, late := range []time.Duration{0, 1, 7 * ms, second} {
			got, ok := s.lateness(t.Context(), 50*ms, func(context.Context) { time.Sleep(50*ms + late) })
			if !ok || got != late {
				t.Errorf("%v, %t, want %v", got, ok, late)
			}
		}
		if got, ok := s.lateness(t.Context(), 0, func(context.Context) { time.Sleep(minute) }); ok {
			t.Errorf("returned after %v", got)
		}
		time.Sleep(minute) // until the call ends
	})
}
