package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func failing(err error) core.Rule {
	return allow10(func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { return "secret", err } })
}

func TestObserversSeeRequestsThatAreNotDecided(t *testing.T) {
	boom := errors.New("boom")
	ouch := func() { panic("ouch") }
	before := perHour("before", 10)
	for _, tt := range []struct {
		why    string
		rules  []core.Rule
		skip   func(*http.Request) bool
		kind   error
		claims []core.Claim // rule and key
	}{
		{"no key", []core.Rule{before, failing(core.ErrNoKey)}, nil, core.ErrNoKey, []core.Claim{{Rule: "before", Key: "k"}, {Rule: "r"}}},
		{"an ambiguous key", []core.Rule{failing(core.ErrBadKey), before}, nil, core.ErrBadKey, []core.Claim{{Rule: "r"}}},
		{"a key func that fails", []core.Rule{before, failing(boom)}, nil, boom, []core.Claim{{Rule: "before", Key: "k"}, {Rule: "r"}}},
		{"a negative cost", []core.Rule{allow10(func(r *core.Rule) { r.Cost = cost(-1) })}, nil, core.ErrInvalid, []core.Claim{{Rule: "r"}}},
		{"a Match that panics", []core.Rule{before, allow10(func(r *core.Rule) { r.Match = func(*http.Request) bool { ouch(); return true } })}, nil, core.ErrInvalid, []core.Claim{{Rule: "before", Key: "k"}, {Rule: "r"}}},
		{"a Tier that panics", []core.Rule{before, allow10(func(r *core.Rule) { r.Tier = func(*http.Request) []core.Limit { ouch(); return nil } })}, nil, core.ErrInvalid, []core.Claim{{Rule: "before", Key: "k"}, {Rule: "r"}}},
		{"a skip that panics", []core.Rule{before}, func(*http.Request) bool { ouch(); return true }, core.ErrInvalid, nil},
	} {
		t.Run(tt.why, func(t *testing.T) {
			seen := new(recorder)
			opts := []core.Option{core.WithObserver(seen.observe)}
			if tt.skip != nil {
				opts = append(opts, core.WithSkip(tt.skip))
			}
			r := get("/")
			l := core.Must(core.New(tt.rules, opts...))
			l.Peek(r) // calls no observer
			l.Check(r)
			must.Equal(t, len(seen.seen), 1, "how often observers were called")
			o := seen.seen[0]
			expect.True(t, errors.Is(o.Err, tt.kind) && !o.Allowed && o.Results == nil && o.Degraded == nil && o.Request == r && o.Store == 0,
				"got %+v, want only Err %v and the request", o, tt.kind)
			wantClaims(t, o.Claims, tt.claims)
		})
	}
}

func wantClaims(t *testing.T, got, want []core.Claim) {
	t.Helper()
	must.True(t, len(got) == len(want), "got claims %+v, want %+v", got, want)
	for i := range want {
		expect.True(t, got[i].Rule == want[i].Rule && got[i].Key == want[i].Key,
			"claim %d: got %q %q, want %q %q", i, got[i].Rule, got[i].Key, want[i].Rule, want[i].Key)
	}
}

func TestObserversOfTake(t *testing.T) {
	seen := new(recorder)
	l := core.Must(core.New([]core.Rule{perHour("a", 10)}, core.WithObserver(seen.observe)))
	for _, step := range []struct {
		why    string
		claims []core.Claim
		called bool
		kind   error
	}{
		{"a charge", []core.Claim{{Rule: "a", Key: "k"}}, true, nil},
		{"a peek", []core.Claim{{Rule: "a", Key: "k", Peek: true}}, false, nil},
		{"a peek beside a charge", []core.Claim{{Rule: "a", Key: "k", Peek: true}, {Rule: "a", Key: "other"}}, true, nil},
		{"no key", []core.Claim{{Rule: "a"}}, true, core.ErrNoKey},
		{"no such rule", []core.Claim{{Rule: "a", Key: "k"}, {Rule: "none", Key: "k"}}, true, core.ErrInvalid},
	} {
		seen.seen = nil
		_, _ = l.Take(t.Context(), step.claims...)
		if (len(seen.seen) == 1) != step.called {
			t.Errorf("%s: observers were called %d times", step.why, len(seen.seen))
			continue
		}
		if step.called {
			if o := seen.seen[0]; o.Request != nil || !errors.Is(o.Err, step.kind) || (o.Err == nil) != (step.kind == nil) {
				t.Errorf("%s: got %+v, want no request and Err %v", step.why, o, step.kind)
			}
			wantClaims(t, seen.seen[0].Claims, step.claims)
		}
	}
}

func TestObservationHasTheDurationOfTheStoreCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(recorder)
		s := &faulty{fault: func(context.Context) error { time.Sleep(7 * time.Millisecond); return nil }}
		l := withStore(s, []core.Rule{perHour("r", 10)}, core.WithObserver(seen.observe))
		check := func(why string, want time.Duration) {
			t.Helper()
			must.Get(l.Check(get("/")))(t)
			expect.Equal(t, seen.seen[len(seen.seen)-1].Store, want, "%s", why)
			synctest.Wait()
		}
		check("an answer", 7*time.Millisecond)
		s.fault = hang
		check("a deadline", 50*time.Millisecond)
		s.fault = unreachable
		for range 10 {
			l.Check(get("/"))
		}
		check("a call that is withheld", 0)
	})
}

func TestPanickingObserverTakesNoRequestDown(t *testing.T) {
	log := expect.KeepLog(t)
	seen := new(recorder)
	l := core.Must(core.New([]core.Rule{perHour("r", 2)},
		core.WithObserver(func(context.Context, *core.Observation) { panic("ouch") }), core.WithObserver(seen.observe)))
	for i := range 3 {
		d, err := l.Check(get("/"))
		expect.True(t, err == nil && d.Allowed == (i < 2), "got %+v, %v; want the decision as if nothing had happened", d, err)
	}
	expect.Equal(t, len(seen.seen), 3, "how often the other observer was called")
	wantLines(t, log.String(), `msg="spillgate: observer panicked" panic=ouch stack=`)
}

func TestObservationAllocatesNothing(t *testing.T) {
	observed := 0
	l := core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: []core.Limit{core.PerSecond(1_000_000)}}},
		core.WithObserver(func(_ context.Context, o *core.Observation) { observed += len(o.Claims) })))
	key, r := core.Claim{Rule: "r", Key: "k"}, get("/")
	for name, decide := range map[string]func(){"Take": func() { l.Take(t.Context(), key) }, "Check": func() { l.Check(r) }} {
		decide()
		expect.AtMost(t, testing.AllocsPerRun(1000, decide), 1, "%s: allocations as without an observer", name)
	}
}

type recorder struct{ seen []core.Observation }

func (t *recorder) observe(_ context.Context, o *core.Observation) {
	seen := *o
	seen.Claims = slices.Clone(o.Claims)
	t.seen = append(t.seen, seen)
}

func TestObservers(t *testing.T) {
	first, second := new(recorder), new(recorder)
	var heard any
	listen := func(ctx context.Context, _ *core.Observation) { heard = ctx.Value(word{}) }
	l := core.Must(core.New([]core.Rule{core.PerHour(1).By(keyK)},
		core.WithObserver(first.observe), core.WithObserver(second.observe), core.WithObserver(listen)))
	for range 2 {
		l.Check(get("/").WithContext(context.WithValue(t.Context(), word{}, "hello")))
	}
	for _, o := range []*recorder{first, second} {
		expect.True(t, len(o.seen) == 2 && o.seen[0].Allowed && !o.seen[1].Allowed && len(o.seen[1].Results) == 1,
			"got %+v, want each decision once, denied ones too", o.seen)
	}
	expect.Equal(t, heard, "hello", "value from the context (the request's)")
}

func TestUndecidedRequestsAreLogged(t *testing.T) {
	boom := errors.New("boom")
	ouch := allow10(func(r *core.Rule) { r.Tier = func(*http.Request) []core.Limit { panic("ouch") } })
	for _, tt := range []struct {
		why  string
		rule core.Rule
		want string
	}{
		{"no key", failing(fmt.Errorf("header x: %w", core.ErrNoKey)), `level=WARN msg="spillgate: request not decided" rule=r err="spillgate: rule \"r\": header x`},
		{"an ambiguous key", failing(core.ErrBadKey), `level=WARN msg="spillgate: request not decided" rule=r`},
		{"a key func that fails", failing(boom), `level=ERROR msg="spillgate: request not decided" rule=r err="spillgate: rule \"r\": boom"`},
		{"a callback that panics", ouch, `stack="goroutine `},
	} {
		t.Run(tt.why, inBubble(func(t *testing.T) {
			log := expect.KeepLog(t)
			l := core.Must(core.New([]core.Rule{tt.rule}))
			l.Peek(get("/")) // calls no observer
			for range 100 {
				l.Check(get("/"))
			}
			wantLines(t, log.String(), tt.want)
			time.Sleep(10*time.Second - 1)
			l.Check(get("/"))
			wantLines(t, log.String(), tt.want)
			time.Sleep(time.Nanosecond)
			l.Check(get("/"))
			wantLines(t, log.String(), tt.want, "suppressed=100")
		}))
	}
}

func TestFailuresOfRulesAreLoggedApart(t *testing.T) {
	log := expect.KeepLog(t)
	fault := core.ErrNoKey
	by := func(name string) core.Rule {
		return core.Rule{Name: name, Limits: []core.Limit{core.PerHour(10)}, Match: func(r *http.Request) bool { return r.URL.Path == "/"+name },
			Key: func(*http.Request) (string, error) { return "", fault }}
	}
	l := core.Must(core.New([]core.Rule{by("a"), by("b")}))
	for range 3 {
		l.Check(get("/a"))
		l.Check(get("/b"))
	}
	fault = errors.New("boom")
	l.Check(get("/a"))
	wantLines(t, log.String(), "rule=a", "rule=b", "boom")
}

func TestUnavailableStoreIsLoggedOnceByItsBreaker(t *testing.T) {
	log := expect.KeepLog(t)
	l := withStore(&faulty{fault: unreachable}, []core.Rule{mode("r", core.FailClosed, 5)})
	for range 50 {
		l.Check(get("/"))
	}
	wantLines(t, log.String(), "the store is unavailable")
}

func TestWithLogger(t *testing.T) {
	other := expect.KeepLog(t)
	log := new(expect.Buffer)
	l := withStore(&faulty{fault: unreachable}, []core.Rule{failing(core.ErrNoKey), perHour("s", 5)}, core.WithLogger(log.Logger()))
	l.Check(get("/"))
	for range 10 {
		l.Take(t.Context(), core.Claim{Rule: "s", Key: "k"})
	}
	wantLines(t, log.String(), "request not decided", "the store is unavailable")
	expect.Equal(t, other.String(), "", "the default logger")
}

func TestErrorsLoggedByAnObserverAreNotLoggedAgain(t *testing.T) {
	log := expect.KeepLog(t)
	logs := func(_ context.Context, o *core.Observation) { o.Logged = o.Claims[0].Rule == "logged" }
	ouch := func(*http.Request, core.Outcome) int { panic("ouch") }
	final := func(name string) core.Rule {
		return core.Rule{Name: name, Key: keyK, Limits: []core.Limit{core.PerHour(10)}, CostAfter: ouch}
	}
	for _, name := range []string{"logged", "other"} {
		failed := failing(core.ErrNoKey)
		failed.Name = name
		core.Must(core.New([]core.Rule{failed}, core.WithObserver(logs))).Check(get("/"))
		l := withStore(new(settler), []core.Rule{final(name)}, core.WithObserver(logs))
		serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{}) })
		_, _ = l.Take(t.Context(), core.Claim{Rule: name}) // which returns the error
	}
	fine := withStore(new(settler), []core.Rule{{Name: "fine", Key: keyK, Limits: []core.Limit{core.PerHour(10)}, CostAfter: core.Failures}}, core.WithObserver(logs))
	serve(t, fine, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{}) })
	wantLines(t, log.String(), "request not decided\" rule=other", "held is charged\" rule=other")
}

func TestStackOfACallbackThatPanicked(t *testing.T) {
	l := core.Must(core.New([]core.Rule{allow10(func(r *core.Rule) { r.Cost = func(*http.Request) int { panic("ouch") } })}))
	_, err := l.Check(get("/"))
	var p interface {
		error
		Stack() []byte
	}
	expect.True(t, errors.As(err, &p) && strings.Contains(string(p.Stack()), "TestStackOfACallbackThatPanicked"),
		"got %v, want an error with the stack of the callback", err)
}
