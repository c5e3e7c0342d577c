package linear

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
)

// An op is one call of a store.
type op struct {
	verb   string       // take, refund, reset
	claims []core.Claim // of a refund: with the instant of the take that it gives back
}

// String returns o without the name of its history: two with the same text do the same.
func (o *op) String() string {
	text := o.verb
	for _, c := range o.claims {
		text += fmt.Sprintf(" %d:%d", keyNumber(c), max(c.Cost, 1))
		if c.Peek {
			text += "?"
		}
		if c.DryRun {
			text += "~"
		}
	}
	return text
}

// keyNumber returns the number of a key among those of its history.
func keyNumber(c core.Claim) int { return int(c.Key[len(c.Key)-1] - '0') }

// An outcome is what the caller learned.
type outcome struct {
	results []core.Result
	lost    bool // nothing: the call may have taken effect, or may still do so
}

func (o outcome) String() string {
	if o.lost {
		return "lost"
	}
	text := ""
	for _, r := range o.results {
		text += fmt.Sprintf(" %v %d", r.Allowed, r.Remaining)
	}
	if len(o.results) > 0 {
		text += fmt.Sprintf(" at %dµs", o.at().UnixMicro()%1_000_000)
	}
	return text
}

// A plan says what callers do at random, at the same time. Each history has keys of its own.
type plan struct {
	limits  []core.Limit // of each claim, differing in algorithm or period
	keys    int
	callers int
	calls   int // by each
	refunds bool
	resets  bool
	ahead   bool          // the clock may be read before a take waits for its turn
	pause   time.Duration // at most, between the calls of a caller
	timeout time.Duration // if not 0, a call is given up after that
}

// A caller plays its part of a plan.
type caller struct {
	plan
	testing.TB
	store   core.Store
	name    string // of the history
	begun   time.Time
	random  *rand.Rand
	takes   []*op // those that it may refund, as the refunds
	history []porcupine.Operation
}

// record plays p and returns what happened.
func (p plan) record(t testing.TB, store core.Store, name string, seed uint64) (history []porcupine.Operation) {
	callers := make([]*caller, p.callers)
	begun := time.Now()
	var playing sync.WaitGroup
	for i := range callers {
		c := &caller{
			plan: p, TB: t, store: store, name: name, begun: begun, random: rand.New(rand.NewPCG(seed, uint64(i))),
		}
		callers[i] = c
		playing.Go(func() {
			for range c.calls {
				c.call(c.next())
				if c.pause > 0 {
					time.Sleep(time.Duration(c.random.Int64N(int64(c.pause))))
				}
			}
		})
	}
	playing.Wait()
	for i, c := range callers {
		for _, o := range c.history {
			o.ClientId = i
			history = append(history, o)
		}
	}
	return history
}

// next draws the next call.
func (c *caller) next() *op {
	switch n := c.random.IntN(10); {
	case n == 0 && c.resets:
		return &op{verb: "reset", claims: []core.Claim{c.claim()}}
	case n < 3 && c.refunds && len(c.takes) > 0:
		i := c.random.IntN(len(c.takes))
		refund := c.takes[i]
		c.takes = append(c.takes[:i], c.takes[i+1:]...)
		return refund
	case n < 6:
		return &op{verb: "take", claims: []core.Claim{c.claim(), c.claim()}}
	}
	return &op{verb: "take", claims: []core.Claim{c.claim()}}
}

func (c *caller) claim() core.Claim {
	return core.Claim{
		Rule: "rule", Key: fmt.Sprintf("%s:%d", c.name, c.random.IntN(c.keys)), Limits: c.limits, Cost: c.random.IntN(3),
		Peek: c.random.IntN(6) == 0, DryRun: c.random.IntN(8) == 0,
	}
}

// call makes a call and takes down what came of it. One that failed has no end, since it may take effect at any time.
func (c *caller) call(o *op) {
	ctx := context.Background()
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	var out outcome
	var err error
	from := time.Since(c.begun).Nanoseconds()
	switch o.verb {
	case "take":
		out.results, err = c.store.Take(ctx, o.claims, nil)
	case "refund":
		err = c.store.Settle(ctx, o.claims)
	case "reset":
		err = c.store.Reset(ctx, o.claims)
	}
	to := time.Since(c.begun).Nanoseconds()
	if err != nil {
		if c.timeout == 0 {
			c.Errorf("%v: %v", o, err)
		}
		out, to = outcome{lost: true}, math.MaxInt64
	}
	if o.verb == "take" && err == nil && allowed(out.results) {
		c.takes = append(c.takes, &op{verb: "refund", claims: settled(o.claims, out.results)})
	}
	c.history = append(c.history, porcupine.Operation{Input: o, Call: from, Output: out, Return: to})
}

// at returns when o was decided.
func (o *outcome) at() time.Time { return o.results[0].At }

// settled returns claims, decided with these results, as Settle gives them back.
func settled(claims []core.Claim, results []core.Result) []core.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].At = results[0].At
		results = results[len(claims[i].Limits):]
	}
	return claims
}

// allowed reports whether all results are allowed, so that all claims but peeks were charged.
func allowed(results []core.Result) bool {
	for _, r := range results {
		if !r.Allowed {
			return false
		}
	}
	return true
}

// lost returns how many calls of a history have no known outcome.
func lost(history []porcupine.Operation) (n int) {
	for _, o := range history {
		if o.Output.(outcome).lost {
			n++
		}
	}
	return n
}
