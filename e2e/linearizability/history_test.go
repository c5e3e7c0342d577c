package linearizability

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/oracle"
)

// A plan describes concurrent random calls. Each history has keys of its own.
type plan struct {
	limits          []core.Limit // of each claim, differing in algorithm or period
	keys, callers   int
	calls           int // by each
	refunds, resets bool
	holds           bool // claims may hold their cost, and are settled or renewed
	bans            bool
	ahead           bool          // the clock may be read before a take waits for its turn
	pause           time.Duration // at most, between the calls of a caller
	timeout         time.Duration // of a call; 0: none
}

// A caller makes the calls of one goroutine of a plan.
type caller struct {
	plan
	testing.TB
	store     core.Store
	name      string // of the history
	begun     time.Time
	random    *rand.Rand
	takes     [][]core.Settlement // the settlements that refund each take that it may settle
	resetting *resetCount
	history   []porcupine.Operation
}

// A resetCount counts the resets of a history. If a reset and a take share a run of the script, they have the same instant, and a store
// cannot tell which was first. A refund of the take then may or may not give anything back, so nobody settles it.
type resetCount struct{ begun, ended atomic.Int64 }

// record plays p and returns what happened.
func (p plan) record(t testing.TB, store core.Store, name string, seed uint64) (history []porcupine.Operation) {
	callers := make([]*caller, p.callers)
	begun, resetting := time.Now(), new(resetCount)
	var playing sync.WaitGroup
	for i := range callers {
		c := &caller{plan: p, TB: t, store: store, name: name, begun: begun, resetting: resetting, random: rand.New(rand.NewPCG(seed, uint64(i)))}
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

// call makes a call and records its outcome. A failed call has no end, since it may take effect at any time.
func (c *caller) call(o *op) {
	ctx := context.Background()
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	var out outcome
	var err error
	ended := c.resetting.ended.Load()
	from := time.Since(c.begun).Nanoseconds()
	switch o.verb {
	case "take":
		out.results, err = c.store.Take(ctx, o.claims, nil)
	case "settle":
		err = c.store.Settle(ctx, o.settlements)
	case "reset":
		c.resetting.begun.Add(1)
		if err = c.store.Reset(ctx, []core.Pair{o.pair}); err == nil {
			c.resetting.ended.Add(1)
		}
	}
	to := time.Since(c.begun).Nanoseconds()
	if err != nil {
		expect.NotEqual(c, c.timeout, 0, "%v: %v", o, err)
		out, to = outcome{lost: true}, math.MaxInt64
	}
	switch {
	case err != nil, c.resetting.begun.Load() != ended:
	case o.verb == "take" && oracle.Allowed(out.results):
		if take := oracle.Settled(o.claims, out.results); len(take) > 0 {
			c.takes = append(c.takes, take)
		}
	case o.verb == "settle" && o.settlements[0].Renew:
		c.takes = append(c.takes, slices.Clone(o.settlements))
	}
	c.history = append(c.history, porcupine.Operation{Input: o, Call: from, Output: out, Return: to})
}
