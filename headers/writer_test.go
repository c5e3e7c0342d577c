package headers_test

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestEveryWriterAndDecision checks the promises about every writer and every decision.
func TestEveryWriterAndDecision(t *testing.T) {
	for _, s := range scenarios {
		for _, w := range writers {
			h := http.Header{}
			w.write(h, s.d)
			w.write(h, s.d)
			for name, values := range h {
				expect.Equal(t, name, http.CanonicalHeaderKey(name), "%s, %s: is not canonical, so Get does not find it", s.name, w.name)
				expect.True(t, len(values) == 1 && values[0] != "",
					"%s, %s: %s = %q after two writes, want one value", s.name, w.name, name, values)
				_ = append(values, "appended")
			}
			once := http.Header{}
			w.write(once, s.d)
			expect.True(t, reflect.DeepEqual(h, once), "%s, %s: appending to one field changed another:\n%v\n%v", s.name, w.name, h, once)
		}
	}
}

// TestResetAndRetryAfterAgree checks that a client is admitted after it has waited for either Reset or Retry-After.
func TestResetAndRetryAfterAgree(t *testing.T) {
	for _, nanos := range []int64{0, 1, 400_000_000, 999_999_999} {
		for _, wait := range []time.Duration{1, time.Millisecond, 600 * time.Millisecond, time.Second, time.Second + 1, longest} {
			at := time.Unix(noon.Unix(), nanos)
			d := decision(at, denied(result("api", perMinute, 0, wait, wait), wait))
			epoch, delta, date := http.Header{}, http.Header{}, http.Header{}
			headers.GitHub(epoch, d)
			headers.Custom{Reset: headers.DeltaSeconds}.Write(delta, d)
			headers.Custom{Reset: headers.RFC3339}.Write(date, d)

			reset := time.Unix(number(t, epoch.Get("X-RateLimit-Reset")), 0)
			if ready := at.Add(wait); reset.Before(ready) || reset.Sub(ready) >= time.Second {
				t.Errorf("at %v, wait %v: Reset %v, want the first whole second not before %v", at, wait, reset, ready)
			}
			retry := time.Duration(number(t, epoch.Get("Retry-After"))) * time.Second
			expect.True(t, retry >= wait && retry-wait < time.Second, "wait %v: Retry-After %v, want the wait rounded up", wait, retry)
			if got := delta.Get("X-RateLimit-Reset"); got != epoch.Get("Retry-After") {
				t.Errorf("wait %v: Reset as a delta is %s, want the %s of Retry-After", wait, got, epoch.Get("Retry-After"))
			}
			got := must.Get(time.Parse(time.RFC3339, date.Get("X-RateLimit-Reset")))(t)
			expect.True(t, got.Equal(reset), "wait %v: Reset as a date is %v, want %v", wait, got, reset)
		}
	}
}

func TestRetryAfterIsAtLeastOne(t *testing.T) {
	last := result("api", perMinute, 0, 0, 0)
	for _, w := range writers[:len(writers)-1] { // without None
		h := http.Header{}
		w.write(h, decision(noon, last))
		expect.Equal(t, h.Get("Retry-After"), "", "%s: Retry-After of an admitted request", w.name)
		w.write(h, decision(noon, denied(last, 0)))
		expect.Equal(t, h.Get("Retry-After"), "1", "%s: Retry-After for a store that denies without a wait (clients repeat at once on 0)", w.name)
	}
}

func TestDateIsUTC(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	time.Local = time.FixedZone("", 3600)
	h := http.Header{}
	at := noon.In(time.FixedZone("", 3*3600))
	headers.Custom{Reset: headers.RFC3339}.Write(h, decision(at, result("api", perMinute, 99, time.Second, time.Second)))
	expect.Equal(t, h.Get("X-RateLimit-Reset"), "2026-01-01T12:00:01Z", "Reset (UTC whatever the zone of the clock and of the machine)")
}

func TestJoin(t *testing.T) {
	var order []string
	note := func(name string) headers.Writer {
		return func(http.Header, core.Decision) { order = append(order, name) }
	}
	h := http.Header{}
	headers.Join(note("first"), nil, headers.GitHub, note("last"), headers.IETF)(h, scenarios[0].d)
	expect.Elements(t, order, []string{"first", "last"}, "order")
	expect.True(t, h.Get("X-RateLimit-Limit") == "100" && h.Get("RateLimit") == `"api";r=50;t=1`, "joined writers left out a field: %v", h)
	headers.Join()(h, scenarios[0].d)
}

// TestExpose checks that Expose lists exactly the fields that writers can set.
func TestExpose(t *testing.T) {
	set := http.Header{}
	for _, s := range scenarios {
		headers.Join(headers.GitHub, headers.IETF)(set, s.d)
	}
	exposed := http.Header{}
	for _, name := range headers.Expose {
		exposed.Set(name, "")
	}
	for name := range set {
		_, ok := exposed[name]
		expect.True(t, ok, "%s is set but not exposed", name)
	}
	expect.True(t, len(exposed) == len(set) && len(headers.Expose) == len(set),
		"Expose = %v, want the %d names that are set", headers.Expose, len(set))
}

func TestViolated(t *testing.T) {
	second := result("api", core.PerSecond(5), 0, time.Second, time.Second)
	hour := result("api", perHour, 0, time.Second, time.Hour)
	log := result("api", perHour.Using(core.SlidingLog), 7, time.Second, time.Hour)
	login := result("login", perMinute, 0, time.Second, time.Minute)
	for _, row := range []struct {
		why  string
		d    core.Decision
		want []string
	}{
		{"nothing denied", decision(noon, second, hour), nil},
		{"nothing enforced", core.Decision{Allowed: true}, nil},
		{"one limit: the rule", decision(noon, denied(login, time.Second)), []string{"login"}},
		{"the one of several limits", decision(noon, second, denied(hour, time.Second)), []string{"api-1h"}},
		{"several, over rules", decision(noon, denied(second, time.Second), hour, denied(login, time.Second)), []string{"api-1s", "login"}},
		{"a shared period", decision(noon, denied(second, 1), hour, denied(log, 1)), []string{"api-1s", "api-1h-sliding-log"}},
		{"a dry run denies nothing", decision(noon, dryRun(denied(second, 1)), denied(hour, 1)), []string{"api"}},
	} {
		expect.Elements(t, headers.Violated(row.d), row.want, "%s: Violated", row.why)
	}
}

// TestAllocations bounds the allocations of writers. The map of h is allocated before.
func TestAllocations(t *testing.T) {
	for _, row := range []struct {
		name  string
		write headers.Writer
		most  float64
	}{
		{"GitHub", headers.GitHub, 2},
		{"IETF", headers.IETF, 2},
		{"Custom zero", headers.Custom{}.Write, 2},
		{"Custom prefix", headers.Custom{Prefix: "X-App"}.Write, 2},
	} {
		h := http.Header{}
		for _, s := range scenarios {
			if s.name != "allowed" && s.name != "denied" && s.name != "two-limits" {
				continue
			}
			row.write(h, s.d)
			got := testing.AllocsPerRun(100, func() { row.write(h, s.d) })
			expect.AtMost(t, got, row.most, "%s, %s: allocations", row.name, s.name)
		}
	}
}
