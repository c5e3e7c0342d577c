package core_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
)

// longest bounds a timeline, so that the clock of the bubble, in nanoseconds, does not run out.
const longest = 250 * 365 * 24 * time.Hour

func TestMemoryStoreAgreesWithTheModel(t *testing.T) {
	testpass.Thorough(t)
	for range testpass.Rounds(3) {
		rapid.Check(t, func(r *rapid.T) {
			tl := timelines.Draw(r, "timeline")
			inBubble(t, r, func() error { return compare(tl) })
		})
	}
}

func TestMemoryStoreAgreesWithTheModelOnRareCases(t *testing.T) {
	testpass.Thorough(t)
	for name, turns := range oracle.Rare {
		var tl timeline
		for _, turn := range turns {
			c := call{verb: "take", claims: turn.Claims, line: turn.Line, wait: wait{plain: turn.After}}
			if turn.Refund {
				c.verb, c.finals = "refund", []int{0}
			}
			tl = append(tl, c)
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := compare(tl); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// inBubble runs f, which fails r with its error, where time.Sleep advances the clock.
func inBubble(t *testing.T, r *rapid.T, f func() error) {
	r.Helper()
	var err error
	synctest.Test(t, func(*testing.T) { err = f() })
	if err != nil {
		r.Fatal(err)
	}
}

// A comparison is a store and the model side by side.
type comparison struct {
	store core.MemoryStore
	model oracle.Model
	takes map[int]taken
	last  []core.Result
	begun time.Time
}

// taken is what a take charged and when.
type taken struct {
	at          time.Time
	settlements []core.Settlement // that return it
}

// compare plays a timeline and returns an error at the first line where store and model differ.
func compare(tl timeline) error {
	c := comparison{takes: make(map[int]taken), begun: time.Now()}
	for i, call := range tl {
		if w := call.wait.length(c.last); w < longest-time.Since(c.begun) {
			time.Sleep(w)
		}
		if err := c.play(i, call); err != nil {
			return fmt.Errorf("line %d: %w\n%v", i, err, tl)
		}
	}
	return nil
}

func (c *comparison) play(line int, call call) error {
	ctx, now := context.Background(), time.Now()
	switch call.verb {
	case "reset":
		c.model.Reset(now.UnixMicro(), []core.Pair{call.pair})
		defer time.Sleep(time.Microsecond)
		return c.store.Reset(ctx, []core.Pair{call.pair})
	case "ban":
		ban := []core.Settlement{{Rule: call.pair.Rule, Key: call.pair.Key, Ban: call.ban}}
		c.model.Settle(now.UnixMicro(), ban)
		return c.store.Settle(ctx, ban)
	case "grant":
		claim := call.claims[0]
		grants := []core.Settlement{{Rule: claim.Rule, Key: claim.Key, Limits: claim.Limits, Grant: call.grant}}
		c.model.Settle(now.UnixMicro(), grants)
		return c.store.Settle(ctx, grants)
	case "renew":
		return c.renew(c.takes[call.line].settlements)
	case "refund", "settle":
		taken := c.takes[call.line]
		delete(c.takes, call.line)
		for i := range taken.settlements {
			taken.settlements[i].Final = call.finals[min(i, len(call.finals)-1)]
		}
		c.model.Settle(now.UnixMicro(), taken.settlements)
		return c.store.Settle(ctx, taken.settlements)
	}
	got, err := c.store.Take(ctx, call.claims, nil)
	if err != nil {
		return err
	}
	c.last = got
	c.takes[line] = taken{now, oracle.Charged(call.claims, got)}
	return differ(got, c.model.Take(now.UnixMicro(), call.claims))
}

// renew renews what settlements hold, and remembers the instants.
func (c *comparison) renew(settlements []core.Settlement) error {
	var renewed []core.Settlement
	for _, s := range settlements {
		if s.Renew = true; s.Held {
			renewed = append(renewed, s)
		}
	}
	byModel := slices.Clone(renewed)
	c.model.Settle(time.Now().UnixMicro(), byModel)
	if err := c.store.Settle(context.Background(), renewed); err != nil {
		return err
	}
	for i := range renewed {
		if got, want := renewed[i].At.UnixMicro(), byModel[i].At.UnixMicro(); got != want {
			return fmt.Errorf("settlement %d is held since %d, want %d", i, got, want)
		}
	}
	i := 0
	for j := range settlements {
		if settlements[j].Held {
			settlements[j].At = renewed[i].At
			i++
		}
	}
	return nil
}

func differ(got, want []core.Result) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d results, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].At.UnixMicro() == want[i].At.UnixMicro() {
			got[i].At = want[i].At
		}
		if got[i] != want[i] {
			return fmt.Errorf("result %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
	return nil
}
