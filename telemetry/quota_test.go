package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

// partners has limits of its own for keys that begin with "user:partner".
var partners = core.Rule{
	Name: "plan", Limits: []core.Limit{core.PerMonth(10)}, Key: func(r *http.Request) (string, error) { return "user:" + r.Header.Get("User"), nil },
	Override: func(key string) []core.Limit {
		if strings.HasPrefix(key, "user:partner") {
			return []core.Limit{core.PerMonth(1000), core.PerDay(500)}
		}
		return nil
	},
}

func TestOverriddenKeysAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := telemetry.New(telemetry.Options{Top: 50})
		l := core.Must(core.New([]core.Rule{partners, {Name: "other", Key: partners.Key, Routes: []string{"/other"}, Limits: []core.Limit{core.PerDay(5)}}}, core.WithObserver(tel.Observe)))
		tel.Attach(l)
		take := func(c core.Claim) { must.Get(l.Take(t.Context(), c))(t) }
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("User", "partner-1")
		for range 3 {
			must.Get(l.Check(r))(t)
		}
		time.Sleep(90 * time.Second)
		last := time.Now()
		take(core.Claim{Rule: "plan", Key: "user:partner-1"})
		take(core.Claim{Rule: "plan", Key: "user:partner-2"})
		take(core.Claim{Rule: "plan", Key: "user:ann"})
		take(core.Claim{Rule: "other", Key: "user:partner-1"})
		take(core.Claim{Rule: "plan", Key: "user:partner-3", Limits: []core.Limit{core.PerDay(9)}, Overridden: true})
		must.Get(l.Usage(r))(t)
		must.Get(l.Peek(r))(t)
		rows := tel.Overridden("plan", 5)
		expect.True(t, len(rows) == 2 && rows[0].Count == 4 && rows[0].Limits == "1000/month, 500/1d" &&
			rows[0].Last.Equal(last.Truncate(time.Second)) && rows[1].Count == 1,
			"got %+v", rows)
		expect.True(t, !strings.Contains(rows[0].Key, "partner"), "the key is not masked: %s", rows[0].Key)
		key, ok := tel.FindKey("plan", rows[1].ID)
		expect.True(t, ok && key == "user:partner-2", "found %q, %v", key, ok)
		expect.True(t, tel.Overridden("other", 5) == nil, "keys of a rule without overrides")
		expect.True(t, tel.Overridden("none", 5) == nil, "keys of no rule")
		want := []telemetry.Quotas{{Rule: "other"}, {Rule: "plan", Overridden: 5}}
		expect.Elements(t, tel.Snapshot().Quotas, want, "tel.Snapshot().Quotas")
		for i := range 1000 { // more keys take no more memory
			take(core.Claim{Rule: "plan", Key: fmt.Sprint("user:partner:", i)})
		}
		expect.Equal(t, len(tel.Overridden("plan", 2000)), 50, "keys remembered")
	})
}

type downStore struct{ core.MemoryStore }

func (*downStore) Settle(context.Context, []core.Settlement) error {
	return errors.New("connection lost")
}

func TestGrantsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, open := telemetry.New(telemetry.Options{}), telemetry.New(telemetry.Options{Unmask: true})
		var observed int
		l := core.Must(core.New([]core.Rule{partners}, core.WithObserver(func(context.Context, *core.Observation) { observed++ })))
		failing := core.Must(core.New([]core.Rule{partners}, core.WithStore(new(downStore))))
		for _, one := range []*telemetry.Telemetry{tel, open} {
			one.Attach(l)
			one.Attach(failing)
		}
		got := tel.Grants(5)
		expect.Equal(t, len(got), 0, "%+v before any grant", got)
		begun := time.Now()
		for i := range 150 {
			must.Do(t, l.Grant(t.Context(), "plan", "ip:203.0.113.9", i-200))
			time.Sleep(time.Second)
		}
		err := failing.Grant(t.Context(), "plan", "user:ann", 5)
		must.True(t, errors.Is(err, core.ErrUnavailable), "got %v", err)
		err = l.Grant(t.Context(), "plan", "user:ann", 0)
		must.True(t, errors.Is(err, core.ErrInvalid), "got %v", err)
		all := tel.Grants(1000)
		expect.True(t, len(all) == 100 && all[0] == (telemetry.Grant{Rule: "plan", Key: "ip:203.0.113.0/24", Requests: -51, At: begun.Add(149 * time.Second)}) &&
			all[99].Requests == -150,
			"%d grants, got %+v first and %+v last", len(all), all[0], all[len(all)-1])
		later := core.Must(core.New([]core.Rule{partners}))
		open.Attach(later)
		must.Do(t, later.Grant(t.Context(), "plan", "user:bob", 7))
		got = open.Grants(2)
		expect.True(t, len(got) == 2 && got[0].Key == "user:bob" && got[1].Key == "ip:203.0.113.9" && len(open.Grants(-1)) == 0, "got %+v", got)
		expect.Elements(t, tel.Snapshot().Quotas, []telemetry.Quotas{{Rule: "plan", Grants: 150}}, "tel.Snapshot().Quotas")
		expect.AtMost(t, observed, 0, "observations of grants")
	})
}

// TestWaits checks that the waits of allowed requests are counted by rule, that a dry run counts the requests that
// would wait or be denied, and the number of waiting requests.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := telemetry.New(telemetry.Options{})
		limits := []core.Limit{core.PerSecond(1)}
		l := core.Must(core.New([]core.Rule{
			{Name: "webhooks", Limits: limits, MaxWait: 3 * time.Second}, {Name: "trial", Limits: limits, MaxWait: time.Second, DryRun: true},
		}, core.WithObserver(tel.Observe)))
		tel.Attach(l)
		tel.Attach(core.Must(core.New([]core.Rule{partners}))) // where nobody waits
		var all sync.WaitGroup
		for range 5 { // one is admitted at once, three wait, one is denied
			all.Go(func() {
				_, _ = l.Wait(t.Context(), core.Claim{Rule: "webhooks", Key: "k"}, core.Claim{Rule: "trial", Key: "k"})
			})
		}
		synctest.Wait()
		expect.Equal(t, tel.Snapshot().Waiting, 3, "requests wait")
		all.Wait()
		s := tel.Snapshot()
		waits := make(map[string]telemetry.Waits)
		for _, w := range s.Waits {
			waits[w.Rule] = w
		}
		w, dry := waits["webhooks"], waits["trial"]
		expect.True(t, w.Count == 3 && w.Duration == 6*time.Second && w.Buckets[4] == 1 && w.Buckets[5] == 2 && dry.Count == 0 && s.Waiting == 0,
			"waits %+v, of the dry run %+v, %d wait", w, dry, s.Waiting)
		results := make(map[string]uint64)
		for _, r := range s.Results {
			if r.Rule == "trial" {
				results[r.Result] += r.Count
			}
		}
		expect.True(t, results["would_wait"] == 1 && results["would_deny"] == 3 && results["near"] == 1,
			"results of the dry run: %v", results)
	})
}
