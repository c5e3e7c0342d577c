package linearizability

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// These stores are broken. A test with one caller notices only the last two.

// lookThenCharge decides by a peek and charges afterwards.
type lookThenCharge struct{ core.Store }

func (s lookThenCharge) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	looks := make([]core.Claim, len(claims))
	for i, c := range claims {
		looks[i] = c
		looks[i].Peek = true
	}
	if results, err := s.Store.Take(ctx, looks, dst); err != nil || !oracle.Allowed(results) {
		return results, err
	}
	runtime.Gosched()
	results, err := s.Store.Take(ctx, claims, dst)
	for i := range results {
		results[i].Allowed, results[i].RetryAfter = true, 0
	}
	return results, err
}

// oneByOne charges claim by claim, and refunds if a later claim is denied.
type oneByOne struct{ core.Store }

func (s oneByOne) Take(ctx context.Context, claims []core.Claim, dst []core.Result) (results []core.Result, err error) {
	results = dst
	for i := range claims {
		before := len(results)
		if results, err = s.Store.Take(ctx, claims[i:i+1], results); err != nil {
			return results, err
		}
		runtime.Gosched()
		if !oracle.Allowed(results[before:]) && i > 0 {
			return results, s.Settle(ctx, oracle.Settled(claims[:i], results[len(dst):]))
		}
	}
	return results, nil
}

// stale returns the results of the previous call from peeks.
type stale struct {
	core.Store
	mu   sync.Mutex
	seen map[string][]core.Result
}

func (s *stale) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	results, err := s.Store.Take(ctx, claims, dst)
	if c := claims[0]; len(claims) == 1 && c.Peek {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.seen[c.Key] == nil {
			s.seen[c.Key] = results
		}
		results, s.seen[c.Key] = s.seen[c.Key], results
	}
	return results, err
}

// twice repeats some calls, like a client that has lost a reply.
type twice struct{ core.Store }

func (s twice) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if time.Now().UnixNano()%7 == 0 {
		if results, err := s.Store.Take(ctx, claims, dst); err != nil {
			return results, err
		}
	}
	return s.Store.Take(ctx, claims, dst)
}

// early reports an instant at which it did not decide.
type early struct{ core.Store }

func (s early) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	before := time.Now()
	runtime.Gosched()
	results, err := s.Store.Take(ctx, claims, dst)
	for i := range results {
		results[i].At = time.UnixMicro(results[i].At.Add(-time.Since(before)).UnixMicro())
	}
	return results, err
}

// releasesFirst first releases the hold and then, separately, charges the final cost.
type releasesFirst struct{ core.Store }

func (s releasesFirst) Settle(ctx context.Context, settlements []core.Settlement) error {
	first, then := slices.Clone(settlements), slices.Clone(settlements)
	for i := range settlements {
		if settlements[i].Held {
			first[i].Final, then[i].At = 0, time.Time{}
		}
	}
	if err := s.Store.Settle(ctx, first); err != nil {
		return err
	}
	runtime.Gosched()
	return s.Store.Settle(ctx, then)
}

// holdsAgain renews a hold by releasing it and holding again.
type holdsAgain struct{ core.Store }

func (s holdsAgain) Settle(ctx context.Context, settlements []core.Settlement) error {
	if !settlements[0].Renew {
		return s.Store.Settle(ctx, settlements)
	}
	first := slices.Clone(settlements)
	var then []core.Claim
	for i, st := range settlements {
		first[i].Renew, first[i].Final = false, 0
		then = append(then, core.Claim{Rule: st.Rule, Key: st.Key, Limits: st.Limits, Cost: st.Cost, DryRun: st.DryRun, Hold: true})
	}
	if err := s.Store.Settle(ctx, first); err != nil {
		return err
	}
	runtime.Gosched()
	_, err := s.Take(ctx, then, nil)
	return err
}

type settlesOneByOne struct{ core.Store }

func (s settlesOneByOne) Settle(ctx context.Context, settlements []core.Settlement) error {
	for i := range settlements {
		if err := s.Store.Settle(ctx, settlements[i:i+1]); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return nil
}

func TestBrokenStoresAreNotLinearizable(t *testing.T) {
	one, all := untimed["token bucket"], untimed["all limits or none"]
	one.refunds, all.refunds = false, false
	short := timed["sliding log"]
	short.pause = time.Millisecond
	ahead := timed["token bucket"]
	ahead.pause, ahead.ahead = time.Millisecond, true
	for name, row := range map[string]struct {
		store core.Store
		plan  plan
		spec  spec
	}{
		"looks, then charges":           {lookThenCharge{new(core.MemoryStore)}, one, plan.counting},
		"charges one after another":     {oneByOne{new(core.MemoryStore)}, all, plan.counting},
		"shows what was":                {&stale{Store: new(core.MemoryStore), seen: make(map[string][]core.Result)}, one, plan.counting},
		"charges twice":                 {twice{new(core.MemoryStore)}, one, plan.counting},
		"looks, then holds":             {lookThenCharge{new(core.MemoryStore)}, untimed["in flight"], plan.counting},
		"releases, then charges":        {releasesFirst{new(core.MemoryStore)}, untimed["held in a bucket"], plan.counting},
		"a renewal holds again":         {holdsAgain{new(core.MemoryStore)}, untimed["in flight"], plan.counting},
		"settles one after another":     {settlesOneByOne{new(core.MemoryStore)}, untimed["held and given back"], plan.counting},
		"says another instant":          {early{new(core.MemoryStore)}, short, plan.timed},
		"looks, then charges, timed":    {lookThenCharge{new(core.MemoryStore)}, short, plan.timed},
		"looks, then charges, a bucket": {lookThenCharge{new(core.MemoryStore)}, ahead, plan.timed},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 200 {
				name := fmt.Sprintf("%s/%d", name, n)
				history := row.plan.record(t, row.store, name, uint64(n))
				if result, _ := row.plan.explain(row.spec, name, history); result == porcupine.Illegal {
					t.Log("found in history", n)
					return
				}
			}
			t.Error("200 histories were explained anyway")
		})
	}
}
