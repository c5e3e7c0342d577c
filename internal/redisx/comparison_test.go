package redisx_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/redisx"
)

// A comparison is a store and the model side by side.
type comparison struct {
	store   *redisx.Store
	advance func(time.Duration)
	model   oracle.Model
	takes   map[int][]core.Settlement // by line: what gives back what the take there charged or held
	last    []core.Result             // of the last take
}

// compare compares s, on a server without state, with the model. It sets the clock of server to start.
func compare(s *redisx.Store, server *miniredis.Miniredis) *comparison {
	server.FlushAll()
	now := start
	server.SetTime(now)
	s.SetLocal(now)
	return &comparison{store: s, takes: make(map[int][]core.Settlement), advance: func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
		s.SetLocal(now)
	}}
}

// play returns how store and model differ over a timeline, or nil.
func (c *comparison) play(steps []step) error {
	for i, s := range steps {
		c.advance(c.wait(s))
		var err error
		switch charged := c.takes[s.line]; s.verb {
		case "reset":
			err = c.reset(s.claims)
		case "refund":
			delete(c.takes, s.line)
			err = c.settle(charged)
		default:
			err = c.take(i, s.claims)
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

// take decides claims by store and model. The store says when.
func (c *comparison) take(line int, claims []core.Claim) error {
	got, err := c.store.Take(context.Background(), claims, nil)
	if err != nil {
		return err
	}
	c.takes[line], c.last = oracle.Charged(claims, got), got
	for i, want := range c.model.Take(got[0].At.UnixMicro(), claims) {
		if got[i] != want {
			return fmt.Errorf("take %+v, result %d:\n got %+v\nwant %+v", claims, i, got[i], want)
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
	c.model.Reset(now, pairsOf(claims...))
	return c.store.Reset(context.Background(), pairsOf(claims...))
}

// settle settles the same in store and model at the same instant. A refund is a settlement at a cost of 0.
func (c *comparison) settle(some []core.Settlement) error {
	if len(some) == 0 {
		return nil
	}
	now, err := c.now()
	if err != nil {
		return err
	}
	want := slices.Clone(some)
	c.model.Settle(now, want)
	if err := c.store.Settle(context.Background(), some); err != nil {
		return err
	}
	for i := range some {
		if !some[i].At.Equal(want[i].At) {
			return fmt.Errorf("settle %+v: settlement %d is held since %v, want %v", some, i, some[i].At, want[i].At)
		}
	}
	return nil
}

// now returns the clock of the server, by a peek at another key. If time passes until the next call, nothing can be compared.
func (c *comparison) now() (int64, error) {
	other := core.Claim{Rule: "clock", Key: "k", Limits: []core.Limit{core.PerDay(1)}, Peek: true}
	results, err := c.store.Take(context.Background(), []core.Claim{other}, nil)
	if err != nil {
		return 0, err
	}
	return results[0].At.UnixMicro(), nil
}
