package core_test

import (
	"testing"

	"github.com/spillgate/spillgate/core"
)

// TestRefundsDoNotAddUp gives back two charges of one instant after both have drained in part: together they count for no
// more than what is left of them.
func TestRefundsDoNotAddUp(t *testing.T) {
	const start = 1 << 50
	limit := core.MustParseLimits("4/1ms")[0]
	p := core.NewPure()
	p.Take(start, limit, 1)
	p.Take(start, limit, 1)
	p.Take(start+250, limit, 1) // one of the two has drained
	p.Refund(start+250, start, limit, 1)
	p.Take(start+250, limit, 2)
	p.Refund(start+250, start, limit, 1)
	if r := p.Take(start+250, limit, 1); !r.Allowed || r.Remaining != 0 {
		t.Errorf("got %+v, want the last one of 4: one was given back, and one had drained", r)
	}
}
