package telemetry

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// A logger that telemetry and the limiter share gets one line for each failure.
func TestLimiterDoesNotLogWhatTelemetryLogs(t *testing.T) {
	ouch := func(*http.Request) int { panic("ouch") }
	fails := func(*http.Request, core.Outcome) int { panic("ouch") }
	less := func(*http.Request, core.Outcome) int { return -1 }
	for why, c := range map[string]struct {
		user  string
		rule  core.Rule
		want  warning
		level slog.Level
		stack bool
	}{
		"no key":               {"", core.Rule{}, keyMissing, slog.LevelWarn, false},
		"a bad key":            {"bad", core.Rule{}, keyBad, slog.LevelWarn, false},
		"a key func fails":     {"broken", core.Rule{}, ruleInvalid, slog.LevelError, false},
		"a cost panics":        {"ann", core.Rule{Cost: ouch}, ruleInvalid, slog.LevelError, true},
		"a CostAfter panics":   {"ann", core.Rule{CostAfter: fails}, finalFailed, slog.LevelError, true},
		"a final cost below 0": {"ann", core.Rule{CostAfter: less}, finalFailed, slog.LevelError, false},
	} {
		b := new(logRecorder)
		tel := New(Options{Log: newLogger(b)})
		c.rule.Name, c.rule.Key, c.rule.Limits = "r", byHeader, []core.Limit{core.PerDay(9)}
		l := limited(t, tel, []core.Rule{c.rule}, core.WithLogger(newLogger(b)))
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("User", c.user)
		if g, err := l.Guard(t.Context(), r, nil); err == nil {
			g.Settle(core.Outcome{})
			g.End()
		}
		if len(b.lines) != 1 || b.lines[0]["message"] != string(c.want) || b.lines[0]["level"] != c.level || (b.lines[0]["stack"] != nil) != c.stack {
			t.Errorf("%s: got %v, want one line %q of level %v", why, b.lines, c.want, c.level)
		}
	}
}

// The limiter logs the failures that telemetry does not log.
func TestLimiterLogsWhatTelemetryDoesNot(t *testing.T) {
	for _, log := range []*slog.Logger{nil, slog.New(slog.DiscardHandler)} {
		b := new(logRecorder)
		l := limited(t, New(Options{Log: log}), []core.Rule{core.PerDay(9).By(byHeader)}, core.WithLogger(newLogger(b)))
		ask(l, "broken")
		if len(b.lines) != 1 {
			t.Errorf("got %v, want a line of the limiter", b.lines)
		}
	}
}
