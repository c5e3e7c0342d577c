package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/testpass"
)

// A logRecorder is a slog.Handler that keeps lines.
type logRecorder struct {
	mu    sync.Mutex
	lines []line
}

// A line is a log line: its attributes, and "level", "message" and "time" as well.
type line map[string]any

func (b *logRecorder) Enabled(context.Context, slog.Level) bool { return true }
func (b *logRecorder) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *logRecorder) WithGroup(string) slog.Handler            { return b }
func (b *logRecorder) Handle(_ context.Context, r slog.Record) error {
	l := line{"level": r.Level, "message": r.Message, "time": time.Now()}
	r.Attrs(func(a slog.Attr) bool { l[a.Key] = a.Value.Any(); return true })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, l)
	return nil
}

// sum returns the number of events that the lines of a message account for, and checks that no second has more than ten lines.
func (b *logRecorder) sum(t *testing.T, message string) (n uint64) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	perSecond := make(map[int64]int)
	for _, l := range b.lines {
		perSecond[l["time"].(time.Time).Unix()]++
		if l["message"] == message {
			n += 1 + l["suppressed"].(uint64)
		}
	}
	for second, lines := range perSecond {
		expect.AtMost(t, lines, 10, "lines in second %d", second)
	}
	return n
}

// texts returns the lines as "message rule key suppressed".
func (b *logRecorder) texts() (all []string) {
	for _, l := range b.lines {
		all = append(all, fmt.Sprint(l["message"], " ", l["rule"], " ", l["key"], " ", l["suppressed"]))
	}
	return all
}

func recorded(t *testing.T, o Options, f func(t *testing.T, tel *Telemetry, b *logRecorder)) {
	synctest.Test(t, func(t *testing.T) {
		b := new(logRecorder)
		o.Log = slog.New(b)
		f(t, New(o), b)
	})
}

// logged runs f with a limiter of one request per day and user, and a log.
func logged(t *testing.T, f func(l *core.Limiter, tel *Telemetry, b *logRecorder)) {
	recorded(t, Options{Unmask: true}, func(t *testing.T, tel *Telemetry, b *logRecorder) {
		quiet := core.WithLogger(slog.New(slog.DiscardHandler))
		f(limited(t, tel, []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerDay(1)}}}, quiet), tel, b)
	})
}

func wantLines(t *testing.T, b *logRecorder, want ...string) {
	t.Helper()
	got := b.texts()
	expect.True(t, strings.Join(got, "\n") == strings.Join(want, "\n"), "got %q, want %q", got, want)
}

func TestDenialsOfAKeyAreLoggedOnceInTenSeconds(t *testing.T) {
	logged(t, func(l *core.Limiter, tel *Telemetry, b *logRecorder) {
		for range 251 { // 25 seconds, the first request is allowed
			ask(l, "ann")
			time.Sleep(100 * time.Millisecond)
		}
		wantLines(t, b, "denied r user:ann 0", "denied r user:ann 99", "denied r user:ann 99")
		tel.Flush()
		expect.Equal(t, b.sum(t, "denied"), 250, "denials in the lines")
		tel.Flush()
		expect.Equal(t, len(b.lines), 4, "lines")
		first := b.lines[0]
		expect.True(t, first["level"] == slog.LevelInfo && first["limit"] == "1/1d" && first["retry_after"].(time.Duration) > 0,
			"got %v", first)
	})
}

// The remaining count of one key is written with the next observation of any key.
func TestNextObservationWritesTheTail(t *testing.T) {
	for user, more := range map[string][]string{"cid": nil, "": {"no decision: the request has no key r <nil> 0"}} {
		logged(t, func(l *core.Limiter, _ *Telemetry, b *logRecorder) {
			for range 6 {
				ask(l, "ann")
			}
			time.Sleep(9 * time.Second)
			ask(l, "bob")
			wantLines(t, b, "denied r user:ann 0")
			time.Sleep(time.Second)
			ask(l, user)
			wantLines(t, b, append([]string{"denied r user:ann 0", "denied r user:ann 3"}, more...)...)
		})
	}
}

func TestFailuresAreWarnings(t *testing.T) {
	for user, want := range map[string]warning{"": keyMissing, "bad": keyBad, "invalid": ruleInvalid, "broken": ruleInvalid} {
		logged(t, func(l *core.Limiter, tel *Telemetry, b *logRecorder) {
			for range 120 {
				ask(l, user)
				time.Sleep(100 * time.Millisecond)
			}
			ask(l, user)
			level := slog.LevelWarn
			if want == ruleInvalid {
				level = slog.LevelError
			}
			expect.True(t, len(b.lines) == 2 && b.lines[0]["level"] == level && b.lines[0]["rule"] == "r" && b.lines[0]["error"] != nil,
				"got %v", b.lines)
			tel.Flush()
			expect.Equal(t, b.sum(t, string(want)), 121, "%s: the lines account for requests", want)
		})
	}
}

func TestFailuresOfTheStoreAreWarnings(t *testing.T) {
	for mode, want := range map[core.FailureMode]warning{core.FailLocal: withoutStore, core.FailOpen: withoutStore, core.FailClosed: noDecision} {
		recorded(t, Options{}, func(t *testing.T, tel *Telemetry, b *logRecorder) { // otherwise the pause before the next probe of the store may be over
			rule := core.Rule{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerDay(15)}, OnFailure: mode}
			open := core.Rule{Name: "open", Key: byHeader, Limits: rule.Limits, OnFailure: core.FailOpen}
			l := limited(t, tel, []core.Rule{open, rule}, core.WithStore(failing{new(core.MemoryStore)}), core.WithLogger(slog.New(slog.DiscardHandler)))
			limited(t, tel, []core.Rule{rule}) // whose store is healthy
			for range 20 {
				ask(l, "ann")
			}
			tel.Flush()
			expect.Equal(t, b.sum(t, string(want)), 20, "mode %v: the lines account for requests (%v)", mode, b.texts())
			s := tel.Snapshot()
			expect.True(t, s.Store.Failures != 0 && s.Store.Failures <= 20 && s.Store.Down && s.Store.Err != nil && !s.Store.Since.IsZero(),
				"mode %v: got %+v", mode, s.Store)
			counts := map[core.FailureMode]map[string]uint64{
				core.FailLocal: {"allowed degraded": 15, "denied degraded": 5, "r 15/1d allowed": 12, "r 15/1d near": 3, "r 15/1d denied": 5, "open 15/1d allowed": 4},
				core.FailOpen:  {"allowed degraded": 20, "r 15/1d allowed": 4, "open 15/1d allowed": 4}, core.FailClosed: {"unavailable": 20},
			}[mode]
			wantCounts(t, tel, counts) // rules that fail open have results until the breaker opens
			h := tel.Recent("", 1)[0]
			expect.True(t, h.Allowed == int(counts["allowed degraded"]) && h.Denied == int(counts["denied degraded"]), "mode %v: got %+v", mode, h)
		})
	}
}

// slowly is a store whose calls fail after a millisecond.
type slowly struct {
	*core.MemoryStore
	err error
}

func (s slowly) Take(context.Context, []core.Claim, []core.Result) ([]core.Result, error) {
	time.Sleep(time.Millisecond)
	return nil, s.err
}

// A flood of requests must not raise the alert for a failing store. The log says why the store did not decide.
func TestOverloadIsNoFailureOfTheStore(t *testing.T) {
	for err, want := range map[error]uint64{breaker.ErrTooMany: 0, errors.New("connection lost"): 1} {
		recorded(t, Options{}, func(t *testing.T, tel *Telemetry, b *logRecorder) {
			rule := core.Rule{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerDay(100)}}
			l := limited(t, tel, []core.Rule{rule}, core.WithStore(slowly{new(core.MemoryStore), err}), core.WithLogger(slog.New(slog.DiscardHandler)))
			limited(t, tel, []core.Rule{rule}) // whose store is healthy
			ask(l, "ann")
			if s := tel.Snapshot(); s.Store.Failures != want || s.Store.Overloads != 1-want || counted(s)["allowed degraded"] != 1 {
				t.Errorf("%v: got %d failures, want %d: %v", err, s.Store.Failures, want, counted(s))
			}
			expect.True(t, len(b.lines) == 1 && b.lines[0]["message"] == string(withoutStore) && errors.Is(b.lines[0]["error"].(error), err),
				"got %v, want one line %q with the error %q", b.lines, withoutStore, err)
		})
	}
}

// A key that does not fit into the log is logged later. Keys are masked unless Options.Unmask is set.
func TestKeysAreMaskedUnlessThatIsOff(t *testing.T) {
	for _, off := range []bool{false, true} {
		b := new(logRecorder)
		tel := New(Options{Log: slog.New(b), Unmask: off})
		deny(tel, "r", "user:ann")
		tel.undecided(t.Context(), &core.Observation{Err: errors.New("x")})
		for _, text := range []string{b.texts()[0], tel.Top("r", 1)[0].Key} {
			expect.True(t, strings.Contains(text, "user:") && strings.Contains(text, "ann") == off, "%q", text)
		}
		expect.Equal(t, len(b.lines), 2, "lines")
	}
}

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
		tel := New(Options{Log: slog.New(b)})
		c.rule.Name, c.rule.Key, c.rule.Limits = "r", byHeader, []core.Limit{core.PerDay(9)}
		before := core.Rule{Name: "before", Key: func(*http.Request) (string, error) { return "const:all", nil }, Limits: c.rule.Limits}
		l := limited(t, tel, []core.Rule{before, c.rule}, core.WithLogger(slog.New(b)))
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("User", c.user)
		if g, err := l.Guard(t.Context(), r, nil); err == nil {
			g.Settle(core.Outcome{})
			g.End()
		}
		expect.True(t, len(b.lines) == 1 && b.lines[0]["message"] == string(c.want) && b.lines[0]["rule"] == "r" && b.lines[0]["level"] == c.level && (b.lines[0]["stack"] != nil) == c.stack,
			"%s: got %v, want one line %q of level %v", why, b.lines, c.want, c.level)
	}
}

func TestLimiterLogsWhatTelemetryDoesNot(t *testing.T) {
	for _, log := range []*slog.Logger{nil, slog.New(slog.DiscardHandler)} {
		b := new(logRecorder)
		ask(limited(t, New(Options{Log: log}), []core.Rule{core.PerDay(9).By(byHeader)}, core.WithLogger(slog.New(b))), "broken")
		expect.Equal(t, len(b.lines), 1, "%v (a line of the limiter)", b.lines)
	}
}

// The lines about a flood of denials, from few keys or from many, are bounded and account for all of them.
func TestFloodIsSummedUp(t *testing.T) {
	testpass.Sequential(t)
	for _, users := range []int{1, 20, 150_000} {
		t.Run(fmt.Sprint(users, " users"), func(t *testing.T) {
			recorded(t, Options{}, func(t *testing.T, tel *Telemetry, b *logRecorder) {
				const seconds, perSecond = 3, 50_000
				for i := range seconds * perSecond {
					if i%(perSecond/100) == 0 {
						time.Sleep(10 * time.Millisecond)
					}
					deny(tel, []string{"a", "b", "c"}[i%3], fmt.Sprint("user:", i%users))
				}
				expect.AtMost(t, strings.Count(fmt.Sprint(b.texts()), "<nil>"), 3, "lines in 3 s that add up the other denials of a rule")
				for range 3 {
					tel.Flush()
				}
				time.Sleep(time.Second)
				tel.Flush()
				expect.Equal(t, b.sum(t, "denied"), seconds*perSecond, "denials in the lines")
			})
		})
	}
}

// Denials are accounted for, whether or not each has its line.
func TestAllDenialsAreAccountedFor(t *testing.T) {
	for why, row := range map[string]struct {
		top  int
		deny func(tel *Telemetry)
		want uint64
	}{
		"many rules, whose lines exceed a second's limit": {0, func(tel *Telemetry) {
			for i := range 5000 {
				deny(tel, fmt.Sprint("rule", i%200), fmt.Sprint("user:", i%1000))
			}
		}, 5000},
		"a key that loses its place among the most denied ones": {1, func(tel *Telemetry) {
			for range 5 {
				deny(tel, "r", "user:a")
			}
			deny(tel, "r", "user:b")
			expect.Equal(t, len(tel.log.log.Handler().(*logRecorder).lines), 2, "lines, one for the first denial of each key")
		}, 6},
		"more keys are due than a second has lines": {0, func(tel *Telemetry) {
			for i := range 27 {
				deny(tel, "r", fmt.Sprint("user:", i))
				deny(tel, "r", fmt.Sprint("user:", i))
				if i%9 == 8 {
					time.Sleep(time.Second)
				}
			}
			time.Sleep(20 * time.Second)
			deny(tel, "r", "user:last")
			time.Sleep(time.Second)
		}, 55},
		"a flush in a second that the store's clock has not reached": {0, func(tel *Telemetry) {
			at := time.Now()
			for i := range 40 {
				denyAt(tel, at, "r", fmt.Sprint("user:", i))
				denyAt(tel, at, "r", fmt.Sprint("user:", i))
				time.Sleep(time.Second / 20)
				tel.Flush()
			}
			time.Sleep(time.Second)
		}, 80},
	} {
		recorded(t, Options{Top: row.top}, func(t *testing.T, tel *Telemetry, b *logRecorder) {
			row.deny(tel)
			tel.Flush()
			n := b.sum(t, "denied")
			expect.True(t, n == row.want && (row.want != 5000 || len(b.lines) == 10), "%s: %d lines account for %d denials, want %d",
				why, len(b.lines), n, row.want)
		})
	}
}

// Warnings about more rules than a second has lines are accounted for, and so are the denials beside them.
func TestAllWarningsAreAccountedFor(t *testing.T) {
	recorded(t, Options{}, func(t *testing.T, tel *Telemetry, b *logRecorder) {
		kinds := map[error]warning{core.ErrNoKey: keyMissing, core.ErrUnavailable: noDecision, core.ErrInvalid: ruleInvalid}
		for i := range 100 {
			deny(tel, "r", fmt.Sprint("user:", i))
			for err := range kinds {
				tel.Observe(t.Context(), &core.Observation{Claims: []core.Claim{{Rule: fmt.Sprint("rule", i%20)}}, Err: err})
			}
		}
		time.Sleep(time.Second)
		tel.Flush()
		for _, message := range append(slices.Collect(maps.Values(kinds)), denialMessage) {
			expect.Equal(t, b.sum(t, string(message)), 100, "%s: the lines account for requests (%v)", message, b.texts())
		}
	})
}

func TestConcurrentDenialsAreAccountedFor(t *testing.T) {
	recorded(t, Options{Top: 8}, func(t *testing.T, tel *Telemetry, b *logRecorder) { // otherwise a busy machine writes lines later than they are permitted
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 5000 {
					deny(tel, "r", fmt.Sprint("user:", (i*g)%50))
				}
			})
		}
		wg.Wait()
		for range 3 { // a second may hold no more lines
			tel.Flush()
			if b.sum(t, "denied") == 40_000 {
				return
			}
			time.Sleep(time.Second)
		}
		t.Errorf("the lines account for %d denials, want 40000", b.sum(t, "denied"))
	})
}
