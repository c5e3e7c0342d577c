package core_test

import (
	"testing"

	"github.com/spillgate/spillgate/core"
)

// TestRefundsDoNotAddUp gives back two charges of one instant after both have drained in part: together they count for no
// more than what is left of them.
func TestRefundsDoNotAddUp(t *testing.T) {
	const start = 1 << 50
	limit := core.MustParseLimits("4/1ms")
	one, two := []core.Claim{{Key: "k", Limits: limit}}, []core.Claim{{Key: "k", Limits: limit, Cost: 2}}
	r := newReplay()
	r.take(start, one)
	r.take(start, one)
	r.take(start+250, one) // one of the two has drained
	r.refund(start+250, start, one)
	r.take(start+250, two)
	r.refund(start+250, start, one)
	if got := r.take(start+250, one); !got.Allowed || got.Remaining != 0 {
		t.Errorf("got %+v, want the last one of 4: one was given back, and one had drained", got)
	}
}
