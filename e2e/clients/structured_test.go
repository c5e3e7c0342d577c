package clients

import (
	"maps"
	"net/http"
	"strconv"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A policy is a member of either field: its name and its parameters, which are Integers.
type policy struct {
	name   string
	params map[string]int64
}

// policies reads a field by RFC 9651.
func policies(t *testing.T, h http.Header, field string) (list []policy) {
	t.Helper()
	members, err := httpsfv.UnmarshalList(h.Values(field))
	must.True(t, err == nil, "%s: %v", field, err)
	for _, m := range members {
		item, ok := m.(httpsfv.Item)
		name, isString := item.Value.(string)
		must.True(t, ok && isString, "%s: member %#v is no String", field, m)
		p := policy{name, map[string]int64{}}
		for _, key := range item.Params.Names() {
			v, _ := item.Params.Get(key)
			p.params[key], ok = v.(int64)
			must.True(t, ok, "%s: parameter %s = %#v is no Integer", field, key, v)
		}
		list = append(list, p)
	}
	return list
}

// strange is a rule whose name needs every kind of escape.
func strange() []core.Rule {
	return []core.Rule{
		{Name: `a "b" \c, d;q=1`, Key: wire.Anyone, Limits: []core.Limit{core.PerMinute(3)}},
		{Name: "api", Key: wire.Anyone, Limits: []core.Limit{core.PerHour(100), core.PerDay(1000).Using(core.FixedWindow)}},
	}
}

// TestStructuredFields checks that a library for RFC 9651 reads the fields of the IETF draft, on admitted responses and on
// denials, and that the policy is the same on all.
func TestStructuredFields(t *testing.T) {
	for _, f := range apps.Frameworks {
		t.Run(f.Name, func(t *testing.T) {
			guard := apps.Guard{Limiter: core.Must(core.New(strange())), Headers: headers.IETF}
			s := wire.Serve(t, f.Build(apps.One(guard, wire.OK)), true)
			for i := range 5 {
				got := s.Get("/")
				must.Equal(t, got.StatusCode, map[bool]int{true: 200, false: 429}[i < 3], "request %d: status", i+1)
				checkPolicy(t, policies(t, got.Header, "RateLimit-Policy"))
				checkState(t, policies(t, got.Header, "RateLimit"), int64(max(2-i, 0)), got.Header.Get("Retry-After"))
			}
		})
	}
}

func checkPolicy(t *testing.T, got []policy) {
	t.Helper()
	want := []policy{
		{strange()[0].Name, map[string]int64{"q": 3, "w": 60}},
		{"api-1h", map[string]int64{"q": 100, "w": 3600}},
		{"api-1d", map[string]int64{"q": 1000, "w": 86400}},
	}
	must.True(t, len(got) == len(want), "policies %v, want %v", got, want)
	for i, p := range got {
		expect.True(t, p.name == want[i].name && maps.Equal(p.params, want[i].params), "policy %v, want %v", p, want[i])
	}
}

// checkState checks the limit that runs out first, and that t is not later than Retry-After.
func checkState(t *testing.T, got []policy, remaining int64, retryAfter string) {
	t.Helper()
	for _, p := range got {
		if p.name != strange()[0].Name {
			continue
		}
		wait, hasWait := p.params["t"]
		expect.True(t, p.params["r"] == remaining && hasWait && wait >= 1 && wait <= 20,
			"state %v, want r=%d and t of at most the 20s that one request takes", p, remaining)
		expect.True(t, retryAfter == "" || retryAfter == strconv.FormatInt(wait, 10),
			"t=%d, Retry-After %s; for a cost of 1 they are the same", wait, retryAfter)
		return
	}
	t.Errorf("%v lacks the tightest limit", got)
}
