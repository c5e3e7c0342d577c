package headers_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/must"
)

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
		if err != nil {
			t.Fatal(err)
		}
		_, next := row.limit.Calendar.Window(at)
		wait := strconv.Itoa(int(next.Sub(at) / time.Second))
		h := http.Header{}
		headers.Join(headers.GitHub, headers.IETF)(h, d)
		for name, want := range map[string]string{
			"RateLimit-Policy": `"plan";q=100;w=` + strconv.FormatInt(row.want, 10), "RateLimit": `"plan";r=0;t=` + wait,
			"Retry-After": wait, "X-RateLimit-Reset": strconv.FormatInt(next.Unix(), 10),
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%v at %s: %s is %s, want %s", row.limit, row.at, name, got, want)
			}
		}
	}
}

// The limit is the plan plus the grants, but at least the used requests. It always equals used plus remaining.
func TestFieldsAddUpWithGrants(t *testing.T) {
	l := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{core.PerMonth(100)}}}))
	type step struct {
		do                     string
		n                      int
		limit, used, remaining int
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
			if err != nil {
				t.Error(err)
			}
			return n
		}
		limit, used, remaining := field("Limit"), field("Used"), field("Remaining")
		if limit != s.limit || used != s.used || remaining != s.remaining || limit != used+remaining {
			t.Errorf("step %d, %s %d: limit %d, used %d, remaining %d; want %+v", i, s.do, s.n, limit, used, remaining, s)
		}
	}
}
