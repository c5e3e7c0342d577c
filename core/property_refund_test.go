package core_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

// A refund must not leave more than if the request had never come. The others still come. Ticks may have begun
// with the request that was refunded, so what would be there within a tick may be there already; the model, whose ticks
// began elsewhere, has it up to a tick later.
func TestRefundIsNoLaxerThanNeverCharged(t *testing.T) {
	testpass.Thorough(t)
	property(t, func(l core.Limit) func(visit) error {
		d := newFixture(l)
		all := make([]admitted, 1)
		return func(v visit) error {
			d.sleep(v.wait)
			if a := &all[v.refund]; a.cost > 0 && !a.refunded {
				a.refunded = true
				refund := oracle.Settlement(d.claims("k", a.cost)[0], time.UnixMicro(a.at))
				d.store.Settle(context.Background(), []core.Settlement{refund})
			}
			r := d.take("k", v.cost)
			now := admitted{at: time.Now().UnixMicro()}
			if r.Allowed {
				now.cost = v.cost
			}
			all = append(all, now)
			if most := d.without(all); r.Remaining > most {
				return fmt.Errorf("%d remain; without what was refunded, %d", r.Remaining, most)
			}
			return nil
		}
	})
}

// without returns what would remain before two ticks from now are over, if what was refunded had never been charged.
func (d *fixture) without(all []admitted) int {
	var m oracle.Model
	for _, a := range all {
		if a.cost > 0 && !a.refunded {
			m.Take(a.at, d.claims("k", a.cost))
		}
	}
	peek := d.claims("k", 1)
	peek[0].Peek = true
	return m.Take(all[len(all)-1].at+2*(tickOf(d.limit)-1), peek)[0].Remaining
}

// tickOf returns in how many microseconds the time of l counts.
func tickOf(l core.Limit) int64 {
	full := float64(l.Capacity()) * float64(l.Period.Microseconds())
	switch {
	case l.Algorithm != core.TokenBucket || full <= 1<<53:
		return 1
	case full <= 1<<53*1e3:
		return 1e3
	default:
		return 1e6
	}
}
