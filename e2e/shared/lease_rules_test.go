package shared

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
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

// TestSetRulesWhileLeasesAreOut changes the rule of a busy key again and again. In the end what was served is charged, no more and
// no less; of a token bucket whose rate changes under way, more may be.
func TestSetRulesWhileLeasesAreOut(t *testing.T) {
	const bucket, faster, window, larger = "100000/80000h", "120000/80000h", "100000/1000d;fixed-window", "120000/1000d;fixed-window"
	const short, long = 20 * time.Millisecond, 50 * time.Millisecond
	for name, row := range map[string]struct {
		rules [][]core.Rule
		exact bool
	}{
		"a lease comes and goes": {[][]core.Rule{costing(bucket, short), costing(bucket, 0)}, true},
		"it gets longer":         {[][]core.Rule{costing(bucket, short), costing(bucket, long), costing(bucket, 0)}, true},
		"a window gets larger":   {[][]core.Rule{costing(larger, short), costing(larger, 0), costing(window, long)}, true},
		"a bucket gets faster":   {[][]core.Rule{costing(faster, short), costing(bucket, short), costing(bucket, 0)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
			t.Cleanup(func() { client.Close() })
			l := core.Must(core.New(row.rules[0], core.WithStore(redisstore.New(client)), core.WithTimeout(longTimeout)))
			served := int64(0)
			for round := 0; round < 5 && l.StoreHealth().Leases.Decisions < 100; round++ { // more than one on a busy machine
				served += askWhileRulesChange(t, l, row.rules)
			}
			charged := func() int64 { return 100_000 - left(t, l) }
			if err := l.SetRules(row.rules[len(row.rules)-1]); err != nil {
				t.Fatal(err)
			}
			redistest.Wait(t, "the leases to end", func() bool {
				return l.StoreHealth().Leases.Keys == 0 && (!row.exact || charged() <= served+1)
			})
			if n := charged(); n < served || row.exact && n > served+1 {
				t.Errorf("%d are charged, and %d were served", n, served)
			}
			if n := l.StoreHealth().Leases.Decisions; n < 100 {
				t.Errorf("%d decisions came from leases", n)
			}
		})
	}
}

// askWhileRulesChange has several callers ask, and returns the costs of what was admitted.
func askWhileRulesChange(t *testing.T, l *core.Limiter, rules [][]core.Rule) int64 {
	var served atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 600 {
				cost := (i + g) % 4
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("Cost", strconv.Itoa(cost))
				d, err := l.Check(r)
				if err != nil || !d.Allowed || (cost == 0) != (len(d.Results) == 0) {
					t.Errorf("cost %d: %+v, %v", cost, d, err)
					return
				}
				served.Add(int64(cost))
				if i%30 == 0 {
					time.Sleep(2 * time.Millisecond) // or all would be asked within one lease
				}
				if g == 0 && i%25 == 0 {
					if err := l.SetRules(rules[i/25%len(rules)]); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	return served.Load()
}

// left returns how many requests remain by the first limits.
func left(t *testing.T, l *core.Limiter) int64 {
	t.Helper()
	c := claimAll()
	c.Peek = true
	d, err := l.Take(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return int64(d.Results[0].Remaining)
}
