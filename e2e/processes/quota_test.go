package processes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// sold serves customers who have bought 100 requests a month. POST /grant grants a customer 50 more. The partner has
// its own limit.
func sold(store core.Store) http.Handler {
	customer := func(r *http.Request) (string, error) {
		if name := r.Header.Get("Customer"); name != "" {
			return "user:" + name, nil
		}
		return "", core.ErrNoKey
	}
	plan := core.PerMonth(100).In("Europe/Berlin").From(15)
	l := core.Must(core.New([]core.Rule{{
		Name: "plan", Key: customer, Limits: []core.Limit{plan, core.PerDay(500).In("Europe/Berlin")}, Routes: []string{"/orders"}, OnFailure: core.FailClosed,
		Override: func(key string) []core.Limit {
			if key == "user:partner" {
				return []core.Limit{core.PerMonth(1000)}
			}
			return nil
		},
	}}, core.WithStore(store), core.WithTimeout(wire.Timeout)))
	mux := http.NewServeMux()
	mux.Handle("/orders", stdlib.New(l)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	mux.Handle("/usage", stdlib.NewUsage(l))
	mux.HandleFunc("/grant", func(w http.ResponseWriter, r *http.Request) {
		if err := l.Grant(r.Context(), "plan", "user:"+r.Header.Get("Customer"), 50); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// TestTwoProcessesSellAPlan uses 60 of 100 requests in two processes, grants 50 more, and uses the remaining 90.
func TestTwoProcessesSellAPlan(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	addrs := [2]string{startChild(t, server.Addr), startChild(t, server.Addr)}
	ask := func(process int, customer, path string) *http.Response {
		t.Helper()
		r := wire.Request(t, http.MethodGet, "http://"+addrs[process%2]+path, nil)
		r.Host = "plan-sold"
		r.Header.Set("Customer", customer)
		resp, err := http.DefaultClient.Do(r)
		must.Do(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	order := func(n int, customer string, want int) {
		t.Helper()
		admitted := 0
		for i := range n {
			resp := ask(i, customer, "/orders")
			if resp.StatusCode == http.StatusOK {
				admitted++
			}
			field := func(name string) int {
				n, err := strconv.Atoi(resp.Header.Get("X-Ratelimit-" + name))
				expect.NoError(t, err, "X-RateLimit-*")
				return n
			}
			limit, used, remaining := field("Limit"), field("Used"), field("Remaining")
			expect.True(t, used >= 0 && limit == used+remaining, "headers do not add up: %v", resp.Header)
		}
		expect.Equal(t, admitted, want, "of %d requests of %s were admitted", n, customer)
	}
	order(60, "ann", 60)
	resp := ask(0, "ann", "/grant")
	must.Equal(t, resp.StatusCode, http.StatusOK, "grant: %s", resp.Status)
	for i := range 100 {
		var usage struct {
			Resources map[string]struct{ Limit, Used, Remaining int }
		}
		must.Do(t, json.NewDecoder(ask(i, "ann", "/usage").Body).Decode(&usage))
		got := usage.Resources["plan"]
		must.True(t, got.Remaining == 90 && got.Used == 60 && got.Limit == 150, "poll %d: got %+v, want 60 of 150 used", i, got)
	}
	order(100, "ann", 90)
	order(101, "bob", 100)
	order(120, "partner", 120)
}

// TestPollsOfUsageAreOneCallEach polls the usage 1,000 times. Each poll makes one call of Redis for all rules and changes
// nothing.
func TestPollsOfUsageAreOneCallEach(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, admin := server.Client(t), server.Client(t)
	user := keyfunc.Header("Customer")
	l := core.Must(core.New([]core.Rule{
		{Name: "plan", Key: user, Limits: []core.Limit{core.PerMonth(1000).From(15), core.PerHour(100)}, Routes: []string{"/orders"}},
		{Name: "login", Key: user, Limits: []core.Limit{core.PerMinute(5).Using(core.SlidingLog)}},
		{Name: "uploads", Key: user, Limits: []core.Limit{core.AtOnce(3)}},
	}, core.WithStore(redisstore.New(client)), core.WithTimeout(wire.Timeout)))
	must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "header:customer:ann", Cost: 30}))(t)
	keys := func() string {
		var all []string
		for _, key := range admin.Keys(t.Context(), "*").Val() {
			all = append(all, key+" "+admin.Dump(t.Context(), key).Val())
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	h := stdlib.NewUsage(l)
	poll := func() {
		w := httptest.NewRecorder()
		r := wire.Request(t, http.MethodGet, "/usage", nil)
		r.Header.Set("Customer", "ann")
		if h.ServeHTTP(w, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `{"limit":1000,"used":30,"remaining":970,`) {
			t.Fatalf("got %d, %s", w.Code, w.Body)
		}
	}
	poll() // loads the script
	stored, before := keys(), calls(t, admin)
	for range 1000 {
		poll()
	}
	expect.Equal(t, calls(t, admin)-before, 1000, "calls by 1,000 polls")
	after := keys()
	expect.True(t, after == stored && stored != "", "Redis has %q after the polls, and had %q before", after, stored)
}
