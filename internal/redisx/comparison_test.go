package redisx_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/redisx"
)

// A comparison is a store and the model side by side.
type comparison struct {
	store   *redisx.Store
	advance func(time.Duration)
	model   oracle.Model
	takes   map[int]taken
	last    []core.Result
	back    bool // the clock may go back
}

// taken is what a take charged and when.
type taken struct {
	at     time.Time
	claims []core.Claim
}

// play returns how store and model differ over a timeline, or nil.
func (c *comparison) play(steps []step) error {
	c.takes = make(map[int]taken)
	for i, s := range steps {
		c.advance(c.wait(s))
		var err error
		switch t := c.takes[s.line]; s.verb {
		case "reset":
			err = c.reset(s.claims)
		case "refund":
			delete(c.takes, s.line)
			err = c.refund(t)
		default:
			err = c.take(i, s)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w\n%v", i, err, steps)
		}
	}
	return nil
}

// wait returns how long to wait before s.
func (c *comparison) wait(s step) time.Duration {
	if s.refill > 0 && s.refill <= len(c.last) && c.last[s.refill-1].RefillAfter < 10*365*24*time.Hour {
		return c.last[s.refill-1].RefillAfter
	}
	return s.wait
}

func (c *comparison) take(line int, s step) error {
	got, err := c.store.Take(context.Background(), s.claims, nil)
	if err != nil {
		return err
	}
	at := got[0].At
	c.takes[line], c.last = taken{at, oracle.Charged(s.claims, got)}, got
	for i, want := range c.model.Take(at.UnixMicro(), s.claims) {
		if got[i] != want {
			return fmt.Errorf("result %d:\n got %+v\nwant %+v", i, got[i], want)
		}
	}
	return nil
}

// reset is at the epoch for the model, until a refund over Redis knows of resets.
func (c *comparison) reset(claims []core.Claim) error {
	c.model.Reset(0, claims)
	return c.store.Reset(context.Background(), claims)
}

// refund gives back what a take charged. The model needs the instant at which the server does so, which a peek at another
// key tells; if time passes in between, nothing can be compared.
func (c *comparison) refund(t taken) error {
	if len(t.claims) == 0 {
		return nil
	}
	ctx := context.Background()
	other := core.Claim{Rule: "clock", Key: "k", Limits: []core.Limit{core.PerDay(1)}, Peek: true}
	results, err := c.store.Take(ctx, []core.Claim{other}, nil)
	if err != nil {
		return err
	}
	now := results[0].At
	c.model.Refund(now.UnixMicro(), t.at.UnixMicro(), t.claims)
	err = c.store.Settle(ctx, t.claims)
	if c.back {
		c.forgetEmpty(now.UnixMicro(), t.claims)
	}
	return err
}

// forgetEmpty has the model forget claims if a refund has left nothing of them. A store keeps a state that says nothing any
// more to the end of the millisecond, and after that does not see that the clock goes back behind it.
func (c *comparison) forgetEmpty(now int64, claims []core.Claim) {
	if now%1000 > 0 {
		return
	}
	peeks := slices.Clone(claims)
	for i := range peeks {
		peeks[i].Peek = true
	}
	for _, r := range c.model.Take(now, peeks) {
		if r.ResetAfter > 0 {
			return
		}
	}
	c.model.Reset(0, claims)
}
