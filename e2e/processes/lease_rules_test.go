package processes

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// costing returns a rule for requests whose Cost header says what they cost, which may be 0.
func costing(limits string, lease time.Duration) []core.Rule {
	return []core.Rule{{
		Name: "leased", Key: keyfunc.Const("all"), Limits: core.MustParseLimits(limits), Lease: lease, OnFailure: core.FailClosed,
		Cost: func(r *http.Request) int {
			cost, _ := strconv.Atoi(r.Header.Get("Cost"))
			return cost
		},
	}}
}

// A ruleChange is a cycle of rules for one key. The last rule stays active.
type ruleChange struct {
	rules func(short time.Duration) [][]core.Rule // by the length of the shortest leases
	exact bool                                    // all unused leased requests have been returned
}

const bucket, faster, window, larger = "100000/80000h", "120000/80000h", "100000/1000d;fixed-window", "120000/1000d;fixed-window"

var ruleChanges = map[string]ruleChange{
	"a lease comes and goes": {func(short time.Duration) [][]core.Rule {
		return [][]core.Rule{costing(bucket, short), costing(bucket, 0)}
	}, true},
	"it gets longer": {func(short time.Duration) [][]core.Rule {
		return [][]core.Rule{costing(bucket, short), costing(bucket, 5*short/2), costing(bucket, 0)}
	}, true},
	"a window gets larger": {func(short time.Duration) [][]core.Rule {
		return [][]core.Rule{costing(larger, short), costing(larger, 0), costing(window, 5*short/2)}
	}, true},
	"a bucket gets faster": {func(short time.Duration) [][]core.Rule {
		return [][]core.Rule{costing(faster, short), costing(bucket, short), costing(bucket, 0)}
	}, false},
}

// TestSetRulesWhileLeasesAreOut changes the rule of a busy key again and again. In the end, exactly the served requests
// are charged. A token bucket whose rate changes may charge more.
func TestSetRulesWhileLeasesAreOut(t *testing.T) {
	for name, c := range ruleChanges {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			synctest.Test(t, func(t *testing.T) { c.play(t, server) })
		})
	}
}

// play changes the rules while several callers send requests, and checks the charges in the end.
func (c ruleChange) play(t *testing.T, server *redistest.Server) {
	const short = 20 * time.Millisecond
	rules := c.rules(short)
	l := core.Must(core.New(rules[0], core.WithStore(redisstore.New(connected(t, server.Addr, 100)))))
	served := askWhileRulesChange(t, l, rules, 5*short/2)
	charged := func() int64 { return int64(100_000 - remaining(t, l).Remaining) }
	must.Do(t, l.SetRules(rules[len(rules)-1]))
	redistest.Wait(t, "the leases to end", func() bool { return l.StoreHealth().Leases.Keys == 0 && (!c.exact || charged() <= served+1) })
	if n := charged(); n < served || c.exact && n > served+1 {
		t.Errorf("%d are charged, and %d were served", n, served)
	}
	expect.AtLeast(t, l.StoreHealth().Leases.Decisions, 100, "decisions came from leases")
}

// askWhileRulesChange has several callers send requests while each rule is active for some time, and returns the cost
// of the admitted requests. It ends before a limit is used up.
func askWhileRulesChange(t *testing.T, l *core.Limiter, rules [][]core.Rule, each time.Duration) int64 {
	var served atomic.Int64
	var ended atomic.Bool
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := g; !ended.Load() && served.Load() < 80_000; i++ {
				cost := i % 4
				if !ask(t, l, cost) {
					return
				}
				served.Add(int64(cost))
				if i%10 == 0 {
					time.Sleep(2 * time.Millisecond) // or a few leases would use up the limit
				}
			}
		})
	}
	for i := range 24 {
		expect.NoError(t, l.SetRules(rules[i%len(rules)]), "SetRules")
		time.Sleep(each)
	}
	ended.Store(true)
	all.Wait()
	return served.Load()
}

// ask sends a request that costs so much and must be admitted, and reports whether it was.
func ask(t *testing.T, l *core.Limiter, cost int) bool {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Cost", strconv.Itoa(cost))
	d, err := l.Check(r)
	if err != nil || !d.Allowed || (cost == 0) != (len(d.Results) == 0) {
		t.Errorf("cost %d: %+v, %v", cost, d, err)
		return false
	}
	return true
}
