// Package selling holds the snippets of docs/sell.md, and tests of the page's promises.
package selling

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// bought are the limits of a customer. Their windows do not end during a test.
var bought = []core.Limit{core.PerYear(100), core.Every(20, 10*365*24*time.Hour).Using(core.FixedWindow)}

// newPlan returns a limiter of a process that has just started, with its limits in server.
func newPlan(t *testing.T, server *redistest.Server) *core.Limiter {
	t.Helper()
	client := redistest.NewClient(t, &redis.Options{Addr: server.Addr})
	rule := core.Rule{Name: "plan", Limits: []core.Limit{core.PerYear(1)}, Tier: func(*http.Request) []core.Limit { return bought }}
	return core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client)), core.WithTimeout(time.Minute)))
}

func use(t *testing.T, l *core.Limiter, customer string, n int) {
	t.Helper()
	d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "user:" + customer, Limits: bought, Cost: n})
	must.True(t, err == nil && d.Degraded == nil && d.Allowed, "%d requests of %s: %+v, %v", n, customer, d, err)
}

// wantLeft checks what a customer has left of its two limits.
func wantLeft(t *testing.T, l *core.Limiter, customer string, year, other int) {
	t.Helper()
	d, err := l.UsageOf(t.Context(), "plan", "user:"+customer, bought...)
	expect.True(t, err == nil && d.Degraded == nil && len(d.Results) == 2 && d.Results[0].Remaining == year && d.Results[1].Remaining == other,
		"%s: got %+v, %v; want %d and %d left", customer, d, err, year, other)
}

// fill makes ann use 15, grants 50 to bob, who uses 60, holds 5 of cat, and bans eve.
func fill(t *testing.T, l *core.Limiter) {
	t.Helper()
	use(t, l, "ann", 15)
	use(t, l, "bob", 15)
	must.Do(t, l.Grant(t.Context(), "plan", "user:bob", 50, bought...))
	use(t, l, "bob", 45)
	d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "user:cat", Limits: bought, Cost: 5, Hold: true})
	must.True(t, err == nil && d.Allowed, "got %+v, %v; want a hold", d, err)
	must.Do(t, l.Ban(t.Context(), "plan", "user:eve", 24*time.Hour))
}

// With appendonly and appendfsync always, a killed Redis comes back with all counts, grants and bans. Without them, it has none.
func TestRestart(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		left map[string][2]int
	}{
		{"no persistence", nil, map[string][2]int{"ann": {100, 20}, "bob": {100, 20}, "cat": {100, 20}, "eve": {100, 20}}},
		{"AOF", []string{"--appendonly", "yes", "--appendfsync", "always"}, map[string][2]int{"ann": {85, 5}, "bob": {90, 10}, "cat": {95, 15}, "eve": {0, 0}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := redistest.Start(t, row.args...)
			fill(t, newPlan(t, server))
			server.Kill()
			server.Restart(t)
			l := newPlan(t, server)
			for customer, left := range row.left {
				wantLeft(t, l, customer, left[0], left[1])
			}
		})
	}
}

// A restored snapshot lacks the requests charged since it was made. A reset removes counts, grants and bans.
func TestSnapshot(t *testing.T) {
	server := redistest.Start(t)
	l := newPlan(t, server)
	fill(t, l)
	must.Do(t, server.Client(t).Save(context.Background()).Err())
	use(t, l, "ann", 5)
	wantLeft(t, l, "ann", 80, 0)
	server.Kill()
	server.Restart(t)
	l = newPlan(t, server)
	wantLeft(t, l, "ann", 85, 5)
	wantLeft(t, l, "bob", 90, 10)
	wantLeft(t, l, "cat", 95, 15)
	wantLeft(t, l, "eve", 0, 0)
	for _, customer := range []string{"ann", "bob", "eve"} {
		must.Do(t, l.Reset(t.Context(), "plan", "user:"+customer))
		wantLeft(t, l, customer, 100, 20)
	}
}

// After Redis has lost all counts, restore leaves each customer as much as when backUp ran.
func TestBackup(t *testing.T) {
	server := redistest.Start(t)
	l := newPlan(t, server)
	use(t, l, "ann", 15)
	use(t, l, "bob", 5)
	must.Do(t, l.Grant(t.Context(), "plan", "user:bob", 50, bought...))
	must.Do(t, l.Grant(t.Context(), "plan", "user:gus", 30, bought...)) // who has used nothing
	var all []saved
	for _, customer := range []string{"ann", "bob", "gus", "new"} {
		all = append(all, must.Get(backUp(t.Context(), l, customer, bought))(t)...)
	}
	must.Equal(t, len(all), 6, "saved %+v (two limits each of ann, bob and gus)", all)
	server.Kill()
	server.Restart(t)
	l = newPlan(t, server)
	wantLeft(t, l, "ann", 100, 20)
	ended := all[0]
	ended.Until = time.Now()
	for _, s := range append(all, ended) {
		must.Do(t, restore(t.Context(), l, s))
	}
	wantLeft(t, l, "ann", 85, 5)
	wantLeft(t, l, "bob", 145, 65)
	wantLeft(t, l, "gus", 130, 50)
	wantLeft(t, l, "new", 100, 20)
	d, err := l.UsageOf(t.Context(), "plan", "user:ann", bought...)
	expect.True(t, err == nil && d.Results[0].Quota() == 85 && d.Results[0].Granted == -15,
		"got %+v, %v; want a limit of 85, of which nothing is used", d, err)
	use(t, l, "ann", 5)
	wantLeft(t, l, "ann", 80, 0)
}

// Without this error, a backup while the store is down would say that nothing was used.
func TestBackupWithoutTheStore(t *testing.T) {
	server := redistest.Start(t)
	l := newPlan(t, server)
	server.Kill()
	all, err := backUp(t.Context(), l, "ann", bought)
	expect.Fails(t, err, "saved %+v without the store (an error)", all)
}

func TestConsole(t *testing.T) {
	l := core.Must(core.New([]core.Rule{{Name: "plan", Limits: bought}}))
	h := console(l, func(customer string) []core.Limit {
		if customer == "ann" {
			return bought
		}
		return nil
	})
	for _, row := range []struct {
		method, customer, n string
		status              int
		says                string
	}{
		{"GET", "ann", "", 200, "100/year: 100 of 100 left, 0 granted, until"},
		{"POST", "ann", "5", 200, "100/year: 105 of 105 left, 5 granted, until"},
		{"POST", "ann", "-25", 200, "100/year: 80 of 80 left, -20 granted, until"},
		{"POST", "ann", "0", 400, "want a number"},
		{"POST", "anne", "5", 404, "no such customer"},
		{"GET", "anne", "", 404, "no such customer"},
	} {
		r := httptest.NewRequest(row.method, "/support?"+url.Values{"customer": {row.customer}, "n": {row.n}}.Encode(), nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		expect.True(t, w.Code == row.status && strings.Contains(w.Body.String(), row.says), "%+v: got %d %s", row, w.Code, w.Body)
	}
}
