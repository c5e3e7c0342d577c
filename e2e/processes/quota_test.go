package processes

import (
	"net/http"
	"net/http/httptest"
	"slices"
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

// TestPollsOfUsageAreOneCallEach polls the usage 1,000 times. Each poll makes one call of Redis for all rules and changes nothing.
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
