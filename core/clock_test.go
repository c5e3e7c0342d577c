package core_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
)

// A tick is a take on a clock that may have gone back since the last, or the refund of an earlier one.
type tick struct {
	step   int64 // microseconds
	limit  core.Limit
	cost   int
	refund bool
	line   int
}

type ticks []tick

func (ts ticks) String() string {
	var b strings.Builder
	for i, k := range ts {
		if k.refund {
			fmt.Fprintf(&b, "%3d: %+dµs refund of line %d\n", i, k.step, k.line)
		} else {
			fmt.Fprintf(&b, "%3d: %+dµs %v cost %d\n", i, k.step, k.limit, k.cost)
		}
	}
	return b.String()
}

func (k tick) claims() []core.Claim {
	return []core.Claim{{Limits: []core.Limit{k.limit}, Cost: k.cost}}
}

func TestStatesAgreeWithTheModelWhenTheClockGoesBack(t *testing.T) {
	testpass.Thorough(t)
	for range testpass.Rounds(3) {
		rapid.Check(t, func(t *rapid.T) {
			limits := family(2).Draw(t, "limits")
			ts := make(ticks, rapid.IntRange(1, 15).Draw(t, "ticks"))
			for i := range ts {
				ts[i] = drawTick(t, limits, i)
			}
			if err := compareOnAnyClock(ts); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func drawTick(t *rapid.T, limits []core.Limit, line int) tick {
	period := limits[0].Period.Microseconds()
	k := tick{limit: pick(t, limits), step: rapid.Int64Range(0, period).Draw(t, "step")}
	if rapid.IntRange(0, 2).Draw(t, "back") == 2 {
		k.step = -rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64Range(0, 3*period)).Draw(t, "back by")
	}
	k.cost = max(1, costs(k.limit.Capacity()).Draw(t, "cost"))
	if line > 0 && rapid.IntRange(0, 5).Draw(t, "refund") == 5 {
		k.refund, k.line = true, rapid.IntRange(0, line-1).Draw(t, "line")
	}
	return k
}

// A replay is a store on a clock of the test's choosing, which may go back.
type replay struct {
	store core.MemoryStore
	now   int64 // microseconds
}

func newReplay() *replay {
	r := new(replay)
	r.store.Now = func() time.Time { return time.UnixMicro(r.now) }
	return r
}

// take is without an error, since the claim is valid.
func (r *replay) take(now int64, claims []core.Claim) core.Result {
	r.now = now
	results, _ := r.store.Take(context.Background(), claims, nil)
	return results[0]
}

// refund gives back at now what a take at an earlier call charged.
func (r *replay) refund(now, at int64, claims []core.Claim) {
	r.now = now
	r.store.Settle(context.Background(), []core.Settlement{oracle.Settlement(claims[0], time.UnixMicro(at))})
}

// compareOnAnyClock plays ts and returns an error at the first line where the store and the model differ. The clock starts
// late enough never to reach the epoch.
func compareOnAnyClock(ts ticks) error {
	store := newReplay()
	var model oracle.Model
	now := int64(1 << 55)
	admitted := make(map[int]int64)
	for i, k := range ts {
		now += k.step
		if k.refund {
			if at, ok := admitted[k.line]; ok {
				delete(admitted, k.line)
				store.refund(now, at, ts[k.line].claims())
				model.Refund(now, at, ts[k.line].claims())
			}
			continue
		}
		got := store.take(now, k.claims())
		if got.Allowed {
			admitted[i] = now
		}
		if err := differ([]core.Result{got}, model.Take(now, k.claims())); err != nil {
			return fmt.Errorf("line %d: %w\n%v", i, err, ts)
		}
	}
	return nil
}
