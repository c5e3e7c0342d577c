package core

import "testing"

func TestBreakerPausesInSpiteOfLateSuccesses(t *testing.T) {
	b := newBreakerAt(t)
	for range 2 {
		if err := b.enter(b.now); err != nil {
			t.Fatal(err)
		}
	}
	b.trips()
	for range 2 {
		b.record(t.Context(), b.now, nil)
		b.wantOpen(true, "after a call from before the pause went well")
	}
	b.now = b.resume.Add(-1)
	b.wantOpen(true, "before the pause is over")
	if b.now = b.resume; !b.call(nil) {
		t.Error("no probe was let through after the pause")
	}
}
