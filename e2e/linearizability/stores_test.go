package linearizability

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

const (
	aLongTime = 3650 * 24 * time.Hour
	thorough  = 150 * time.Millisecond // how long a row runs; at least a few histories
	tooLong   = 2 * time.Minute        // the bound on the search for an explanation
)

// long returns a limit whose period is so long that elapsed time makes no difference.
func long(rate int, a core.Algorithm) core.Limit { return core.Every(rate, aLongTime).Using(a) }

// untimed are plans for the model that counts.
var untimed = map[string]plan{
	"token bucket":   {limits: []core.Limit{long(5, core.TokenBucket)}, keys: 2, callers: 4, calls: 10},
	"fixed window":   {limits: []core.Limit{long(5, core.FixedWindow)}, keys: 2, callers: 4, calls: 10, refunds: true},
	"sliding window": {limits: []core.Limit{long(5, core.SlidingWindow)}, keys: 2, callers: 4, calls: 10, refunds: true},
	"sliding log":    {limits: []core.Limit{long(5, core.SlidingLog)}, keys: 2, callers: 4, calls: 10, refunds: true},
	"all limits or none": {
		limits: []core.Limit{long(6, core.TokenBucket), long(5, core.FixedWindow), long(4, core.SlidingWindow), long(7, core.SlidingLog)},
		keys:   2, callers: 4, calls: 8,
	},
	"all limits are given back": {
		limits: []core.Limit{long(5, core.FixedWindow), long(4, core.SlidingWindow), long(7, core.SlidingLog)},
		keys:   2, callers: 4, calls: 8, refunds: true,
	},
	"keys that are forgotten": {
		limits: []core.Limit{long(3, core.TokenBucket), long(4, core.FixedWindow), long(3, core.SlidingWindow)},
		keys:   2, callers: 4, calls: 8, resets: true,
	},
	"held in a bucket": {limits: []core.Limit{long(5, core.TokenBucket)}, keys: 2, callers: 4, calls: 10, holds: true},
	"held and given back": {
		limits: []core.Limit{long(5, core.FixedWindow), long(4, core.SlidingWindow), long(7, core.SlidingLog)},
		keys:   2, callers: 4, calls: 8, holds: true, refunds: true,
	},
	"in flight": {limits: []core.Limit{core.AtOnce(2), long(5, core.FixedWindow)}, keys: 2, callers: 4, calls: 10, holds: true},
	"held, banned and forgotten": {
		limits: []core.Limit{core.AtOnce(3), long(4, core.SlidingLog)}, keys: 2, callers: 4, calls: 10, holds: true, bans: true, resets: true,
	},
	"a log that is forgotten": {limits: []core.Limit{long(3, core.SlidingLog)}, keys: 2, callers: 4, calls: 10, resets: true},
}

// timed are plans for the model with instants.
var timed = map[string]plan{
	"token bucket":   {limits: core.MustParseLimits("3/4ms;burst=2"), keys: 2, callers: 3, calls: 12, resets: true},
	"fixed window":   {limits: core.MustParseLimits("3/4ms;fixed-window"), keys: 2, callers: 3, calls: 12, refunds: true, resets: true},
	"sliding window": {limits: core.MustParseLimits("3/4ms;sliding-window;buckets=4"), keys: 2, callers: 3, calls: 12, refunds: true, resets: true},
	"sliding log":    {limits: core.MustParseLimits("3/4ms;sliding-log"), keys: 2, callers: 3, calls: 12, refunds: true, resets: true},
	"all limits or none": {
		limits: core.MustParseLimits("3/4ms, 5/9ms;fixed-window, 4/7ms;sliding-window, 3/5ms;sliding-log"), keys: 2, callers: 3, calls: 10,
	},
}

// A spec makes the specification of a history.
type spec func(p plan, name string, history []porcupine.Operation) porcupine.Model

// explain looks for an explanation of a history.
func (p plan) explain(spec spec, name string, history []porcupine.Operation) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	return porcupine.CheckOperationsVerbose(spec(p, name, history), history, tooLong)
}

// wantExplained runs p for a while and fails the test at the first history without an explanation. If most calls of a
// history are lost, it proves little and the search takes long, so calls get more time on a busy machine.
func (p plan) wantExplained(t *testing.T, store core.Store, spec spec) {
	t.Helper()
	begun := time.Now()
	explained, unknown := 0, 0
	for n := 0; explained < 3 || time.Since(begun) < thorough; n++ {
		name := fmt.Sprintf("%s/%d", t.Name(), n)
		history := p.record(t, store, name, uint64(n))
		unknown += lost(history)
		if lost(history) > len(history)*2/3 && p.timeout < time.Second {
			p.timeout *= 2
			continue
		}
		result, info := p.explain(spec, name, history)
		if result == porcupine.Ok {
			explained++
			continue
		}
		text := ""
		for _, o := range history {
			text += fmt.Sprintf("%d %d..%d %v -> %v\n", o.ClientId, o.Call, o.Return, o.Input, o.Output)
		}
		t.Fatalf("history %d: %v; see %s\n%s", n, result, visualize(spec(p, name, history), info), text)
	}
	t.Log(explained, "histories,", unknown, "calls of unknown outcome")
	expect.True(t, p.timeout <= 0 || unknown != 0, "no call was ever lost")
}

// visualize writes a page that shows how much of a history can be explained, and returns its path.
func visualize(m porcupine.Model, info porcupine.LinearizationInfo) string {
	f, err := os.CreateTemp("", "linearizability-*.html")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if err := porcupine.Visualize(m, info, f); err != nil {
		return err.Error()
	}
	return f.Name()
}

func TestMemoryStore(t *testing.T) { everyPlan(t, new(core.MemoryStore), true) }

func TestRedis(t *testing.T) { everyPlan(t, redisstore.New(redistest.Start(t).Client(t)), false) }

// TestCluster runs plans with holds on one key only, since keys in different slots are decided separately.
func TestCluster(t *testing.T) {
	store := redisstore.New(redistest.StartCluster(t).Client(t))
	for name, p := range untimed {
		if p.keys = 1; p.holds {
			t.Run(name, func(t *testing.T) { p.wantExplained(t, store, plan.counting) })
		}
	}
}

// everyPlan runs all plans with a store, which may read the clock for a token bucket ahead of its turn.
func everyPlan(t *testing.T, store core.Store, ahead bool) {
	for name, p := range untimed {
		t.Run("untimed/"+name, func(t *testing.T) { p.wantExplained(t, store, plan.counting) })
	}
	for name, p := range timed {
		p.pause = time.Millisecond
		p.ahead = ahead && name == "token bucket"
		t.Run("timed/"+name, func(t *testing.T) { p.wantExplained(t, store, plan.timed) })
	}
}

// faults are the faults of some of the calls. A call that is cut off after the server has executed it is charged once.
var faults = map[string][]redistest.Fault{
	"replies are cut":      {redistest.NoFault, redistest.CutReplies},
	"replies are reset":    {redistest.NoFault, redistest.ResetReplies},
	"commands are cut":     {redistest.NoFault, redistest.CutCommands},
	"replies never come":   {redistest.NoFault, redistest.NoFault, redistest.SwallowReplies},
	"commands are delayed": {redistest.NoFault, {Delay: 30 * time.Millisecond}},
}

func TestRedisWithFaults(t *testing.T) {
	server := redistest.Start(t)
	for name, some := range faults {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.StartProxy(t, server.Addr)
			client := redistest.NewClient(t, &redis.Options{Addr: proxy.Addr, PoolSize: 100, ContextTimeoutEnabled: true})
			store := redisstore.New(client)
			defer alternate(&proxy.Fault, some)()
			for _, name := range []string{"all limits are given back", "held and given back"} {
				p := untimed[name]
				p.callers, p.calls, p.timeout = 3, 6, 20*time.Millisecond
				t.Run(name, func(t *testing.T) { p.wantExplained(t, store, plan.counting) })
			}
		})
	}
}

// alternate sets the fault of s to some faults in turn, until stop is called.
func alternate(s *redistest.Switch, some []redistest.Fault) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			s.Store(some[i%len(some)])
			time.Sleep(2 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		running.Wait()
		s.Store(redistest.NoFault)
	}
}
