package headers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func number(t testing.TB, s string) int64 {
	n := must.Get(strconv.ParseInt(s, 10, 64))(t)
	expect.Equal(t, s, strconv.FormatInt(n, 10), "plain digits")
	return n
}

// item is one member of a field: a name and its parameters, in order.
type item struct {
	name   string
	params []string
}

// parseList reads a List of Strings with Integer parameters, by the grammar of RFC 9651.
func parseList(s string) (items []item, err error) {
	for {
		var it item
		if it.name, s, err = parseString(s); err != nil {
			return nil, err
		}
		for strings.HasPrefix(s, ";") {
			end := strings.IndexAny(s[1:]+",", ";,") + 1
			name, value, _ := strings.Cut(s[1:end], "=")
			if name == "qu" && value == `"concurrent-requests"` {
				name, value = "u", "0"
			}
			if len(name) != 1 || name[0] < 'a' || name[0] > 'z' {
				return nil, fmt.Errorf("parameter %q", name)
			}
			if n, err := strconv.ParseUint(value, 10, 64); err != nil || n > 999_999_999_999_999 {
				return nil, fmt.Errorf("integer %q", value)
			}
			it.params = append(it.params, name)
			s = s[end:]
		}
		items = append(items, it)
		if s == "" {
			return items, nil
		}
		if s[0] != ',' {
			return nil, fmt.Errorf("%q follows an item", s)
		}
		s = s[1:]
	}
}

func parseString(s string) (value, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", fmt.Errorf("no string: %q", s)
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return value, s[i+1:], nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", fmt.Errorf("escape in %q", s)
			}
			value += string(s[i])
		case c < ' ' || c > '~':
			return "", "", fmt.Errorf("byte %#x in %q", c, s)
		default:
			value += string(c)
		}
	}
	return "", "", fmt.Errorf("no end of %q", s)
}

// FuzzIETF checks that both fields parse and name the same policies, whatever the rule's name.
func FuzzIETF(f *testing.F) {
	f.Add("api", 100, int64(60000), 50, int64(30000), int64(-1), true)
	f.Add(`"\`, 1, int64(1), 0, int64(1), int64(1), false)
	f.Add(`";q=1,"x`, 0, int64(315360000000), 0, int64(0), int64(0), true)
	f.Fuzz(func(t *testing.T, name string, rate int, periodMillis int64, remaining int, waitMillis, retryMillis int64, two bool) {
		l := core.Every(rate, time.Duration(periodMillis)*time.Millisecond)
		wait, retry := time.Duration(waitMillis)*time.Millisecond, time.Duration(retryMillis)*time.Millisecond
		if !printable(name) || l.Validate() != nil || remaining < 0 || remaining > rate || wait < 0 || wait > longest || retry > longest {
			t.Skip("no store reports this")
		}
		results := []core.Result{result(name, l, remaining, wait, wait)}
		if retry >= 0 {
			results[0] = denied(results[0], retry)
		}
		if two {
			results = append(results, result(name, l.Using(core.SlidingWindow), remaining, wait, wait))
		}
		h := http.Header{}
		headers.IETF(h, decision(noon, results...))
		policies := must.Get(parseList(h.Get("RateLimit-Policy")))(t)
		states := must.Get(parseList(h.Get("RateLimit")))(t)
		must.True(t, len(policies) == len(results) && len(states) == len(results),
			"%d policies and %d states for %d results", len(policies), len(states), len(results))
		for i, p := range policies {
			if !strings.HasPrefix(p.name, name) || p.name != states[i].name || i > 0 && p.name == policies[0].name {
				t.Errorf("name %q in %v", name, h)
			}
			expect.True(t, strings.Join(p.params, "") == "qw" && strings.HasPrefix("rt", strings.Join(states[i].params, "")),
				"parameters of %v", h)
		}
	})
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// names returns the names of the policies in both fields of IETF.
func names(t *testing.T, d core.Decision) (policies []string) {
	t.Helper()
	h := http.Header{}
	headers.IETF(h, d)
	items, err := parseList(h.Get("RateLimit-Policy"))
	states, err2 := parseList(h.Get("RateLimit"))
	must.True(t, err == nil && err2 == nil && len(items) == len(states), "%v, %v: %v", h, err, err2)
	for i, it := range items {
		expect.True(t, it.name == states[i].name, "fields name %q and %q", it.name, states[i].name)
		policies = append(policies, it.name)
	}
	return policies
}

func TestPolicyNames(t *testing.T) {
	one := func(rule string, limits ...core.Limit) (results []core.Result) {
		for _, l := range limits {
			results = append(results, result(rule, l, 1, 0, 0))
		}
		return results
	}
	minute, hour := core.PerMinute(100), core.PerHour(1000)
	for _, row := range []struct {
		results []core.Result
		want    []string
	}{
		{one("api", minute), []string{"api"}},
		{one("api", minute, hour), []string{"api-1m", "api-1h"}},
		{one("api", minute, minute.Using(core.SlidingLog)), []string{"api-1m-token-bucket", "api-1m-sliding-log"}},
		{one("api-1m", minute), []string{"api-1m-1m"}},
		{one("api-1m", minute, hour), []string{"api-1m-1m", "api-1m-1h"}},
		{one("api-1m-sliding-log", hour), []string{"api-1m-sliding-log-1h"}},
		{one("api~2", minute), []string{"api~2-1m"}},
		{one("up", minute, twoAtOnce), []string{"up-1m", "up-at-once"}},
		{one("up", twoAtOnce), []string{"up"}},
		{one("up-at-once", twoAtOnce), []string{"up-at-once-at-once"}},
		{one("~", minute), []string{"~"}},
		{one("1m", minute), []string{"1m"}},
		{one("v-2", minute), []string{"v-2"}},
		{one("plan-1month", minute), []string{"plan-1month"}},
		{one("a-sliding-log", minute), []string{"a-sliding-log"}},
		{one("1m-sliding-log", minute), []string{"1m-sliding-log"}},
		{one("a-s", minute), []string{"a-s"}},
		{one("a-1.5s", minute), []string{"a-1.5s"}},
		{one("a-90s", minute), []string{"a-90s-1m"}},
		{one("a~2x", minute), []string{"a~2x"}},
		{one("~2", minute), []string{"~2-1m"}},
		{one("a-month", minute), []string{"a-month-1m"}},
		{one("a-year-UTC-1", minute), []string{"a-year-UTC-1-1m"}},
		{one("plan", core.PerDay(9).In("UTC"), core.PerMonth(9)), []string{"plan-day", "plan-month"}},
		{one("plan", core.PerMonth(9), core.PerMonth(9).In("Europe/Berlin").From(15)), []string{"plan-month-UTC-1", "plan-month-Europe/Berlin-15"}},
	} {
		expect.Elements(t, names(t, decision(noon, row.results...)), row.want, "%s", row.results[0].Rule)
	}
}

// TestPolicyNamesAreInjective names rules like the policies of other rules.
func TestPolicyNamesAreInjective(t *testing.T) {
	rules := []string{"a"}
	for range 2 {
		for _, r := range slices.Clone(rules) {
			rules = append(rules, r+"-1m", r+"-60s", r+"-1m-sliding-log", r+"-1h-token-bucket", r+"~2", r+"-at-once", r+"-")
		}
	}
	limits := [][]core.Limit{
		{core.PerMinute(9)},
		{core.PerHour(9), core.PerMinute(9)},
		{core.PerMinute(9), core.PerMinute(9).Using(core.SlidingLog)},
		{core.PerHour(9), twoAtOnce},
		{core.PerHour(9), core.PerMinute(9), core.PerMinute(9).Using(core.SlidingLog)},
	}
	owner := map[string]string{}
	slices.Sort(rules)
	for _, rule := range slices.Compact(rules) {
		for _, set := range limits {
			var results []core.Result
			for _, l := range set {
				results = append(results, result(rule, l, 1, 0, 0))
			}
			for i, name := range names(t, decision(noon, results...)) {
				policy := fmt.Sprintf("%q %v", rule, set[i])
				other := owner[name]
				expect.True(t, other == "" || other == policy, "%q names %s and %s", name, other, policy)
				owner[name] = policy
			}
		}
	}
}

// TestPolicyNamesOfNestedLimiters gives two limiters rules with the same name. A policy has the same name in all
// responses, even if the other limiter's rule does not apply, or only the outer limiter decides.
func TestPolicyNamesOfNestedLimiters(t *testing.T) {
	key := func(*http.Request) (string, error) { return "k", nil }
	applies := true
	outerRule := core.PerMinute(3).By(key)
	outerRule.Match = func(*http.Request) bool { return applies }
	outer := core.Must(core.New([]core.Rule{outerRule}))
	inner := core.Must(core.New([]core.Rule{core.PerMinute(9).By(key), {Name: "route", Key: key, Limits: []core.Limit{core.PerMinute(9), core.PerHour(9)}}}))
	third := core.Must(core.New([]core.Rule{core.PerHour(9).By(key)}))
	for i, row := range []struct {
		limiters []*core.Limiter
		applies  bool
		want     []string
	}{
		{[]*core.Limiter{outer}, true, []string{"default"}},
		{[]*core.Limiter{outer, inner}, true, []string{"default", "default~2", "route-1m", "route-1h"}},
		{[]*core.Limiter{outer, inner}, false, []string{"default~2", "route-1m", "route-1h"}},
		{[]*core.Limiter{outer, inner, third}, true, []string{"default", "default~2", "route-1m", "route-1h", "default~3"}},
		{[]*core.Limiter{outer, inner}, true, []string{"default"}}, // the outer limiter denies
	} {
		applies = row.applies
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		var d core.Decision
		for _, l := range row.limiters {
			g := must.Get(l.Guard(r.Context(), r, nil))(t)
			r, d = g.Request(), g.Decision()
			if !g.Admitted() {
				break
			}
		}
		expect.Elements(t, names(t, d), row.want, "request %d", i+1)
		expect.True(t, d.Allowed || slices.Equal(headers.Violated(d), row.want),
			"request %d: violated %q, want %q", i+1, headers.Violated(d), row.want)
	}
}

// The policy of a calendar limit has the length of the current window, and the fields point to the start of the next one.
func TestFieldsOfCalendarLimits(t *testing.T) {
	const day = 86400
	for _, row := range []struct {
		limit core.Limit
		at    string
		want  int64
	}{
		{core.PerMonth(100), "2023-02-10T12:00:00Z", 28 * day},
		{core.PerMonth(100), "2024-02-10T12:00:00Z", 29 * day},
		{core.PerMonth(100).In("Europe/Berlin").From(15), "2026-03-20T12:00:00Z", 31*day - 3600}, // summer time begins
		{core.PerMonth(100).From(31), "2024-02-10T12:00:00Z", 29 * day},
		{core.PerDay(100).In("America/New_York"), "2026-11-01T12:00:00Z", 25 * 3600},
		{core.PerDay(100).In("America/New_York"), "2026-03-08T12:00:00Z", 23 * 3600},
		{core.PerWeek(100), "2026-11-25T12:00:00Z", 7 * day},
		{core.PerYear(100), "2024-06-01T12:00:00Z", 366 * day},
		{core.PerYear(100), "2025-06-01T12:00:00Z", 365 * day},
	} {
		at, _ := time.Parse(time.RFC3339, row.at)
		l := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{row.limit}}}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return at }})))
		d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "k", Cost: 100})
		if err == nil {
			d, err = l.Take(t.Context(), core.Claim{Rule: "plan", Key: "k"})
		}
		must.Do(t, err)
		_, next := row.limit.Calendar.Window(at)
		wait := strconv.Itoa(int(next.Sub(at) / time.Second))
		h := http.Header{}
		headers.Join(headers.GitHub, headers.IETF)(h, d)
		for name, want := range map[string]string{
			"RateLimit-Policy": `"plan";q=100;w=` + strconv.FormatInt(row.want, 10), "RateLimit": `"plan";r=0;t=` + wait,
			"Retry-After": wait, "X-RateLimit-Reset": strconv.FormatInt(next.Unix(), 10),
		} {
			expect.Equal(t, h.Get(name), want, "%v at %s: %s", row.limit, row.at, name)
		}
	}
}

// The limit is the plan plus the grants, but at least the used requests. It always equals used plus remaining.
func TestFieldsAddUpWithGrants(t *testing.T) {
	l := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{core.PerMonth(100)}}}))
	type step struct {
		do                        string
		n, limit, used, remaining int
	}
	for i, s := range []step{
		{"use", 60, 100, 60, 40}, {"grant", 50, 150, 61, 89}, {"use", 89, 150, 150, 0}, {"use", 1, 150, 150, 0}, // denied
		{"grant", 130, 280, 151, 129}, {"grant", 1000, 1280, 152, 1128}, {"grant", -1100, 180, 153, 27},
		{"grant", -500, 153, 153, 0},
	} {
		cost := s.n
		if s.do == "grant" {
			cost = 1
			must.Do(t, l.Grant(t.Context(), "plan", "k", s.n))
		}
		d := must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "k", Cost: cost}))(t)
		h := http.Header{}
		headers.GitHub(h, d)
		field := func(name string) int {
			n, err := strconv.Atoi(h.Get("X-RateLimit-" + name))
			expect.NoError(t, err, "X-RateLimit-*")
			return n
		}
		limit, used, remaining := field("Limit"), field("Used"), field("Remaining")
		expect.True(t, limit == s.limit && used == s.used && remaining == s.remaining && limit == used+remaining,
			"step %d, %s %d: limit %d, used %d, remaining %d; want %+v", i, s.do, s.n, limit, used, remaining, s)
	}
}
