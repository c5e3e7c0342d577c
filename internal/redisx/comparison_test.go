package redisx_test

import (
	"context"
	"fmt"
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

// reset resets store and model at the same instant.
func (c *comparison) reset(claims []core.Claim) error {
	now, err := c.now()
	if err != nil {
		return err
	}
	c.model.Reset(now, claims)
	return c.store.Reset(context.Background(), claims)
}

// now returns the clock of the server, which a peek at another key tells.
func (c *comparison) now() (int64, error) {
	other := core.Claim{Rule: "clock", Key: "k", Limits: []core.Limit{core.PerDay(1)}, Peek: true}
	results, err := c.store.Take(context.Background(), []core.Claim{other}, nil)
	if err != nil {
		return 0, err
	}
	return results[0].At.UnixMicro(), nil
}

// refund gives back what a take charged. If time passes between the peek at the clock and the refund, nothing can be compared.
func (c *comparison) refund(t taken) error {
	if len(t.claims) == 0 {
		return nil
	}
	now, err := c.now()
	if err != nil {
		return err
	}
	c.model.Refund(now, t.at.UnixMicro(), t.claims)
	return c.store.Settle(context.Background(), t.claims)
}
