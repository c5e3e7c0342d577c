package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestUndecidedRequestsAreLogged(t *testing.T) {
	boom := errors.New("boom")
	ouch := allow10(func(r *core.Rule) { r.Tier = func(*http.Request) []core.Limit { panic("ouch") } })
	tests := []struct {
		why  string
		rule core.Rule
		want string
	}{
		{"no key", failing(fmt.Errorf("header x: %w", core.ErrNoKey)), `level=WARN msg="spillgate: request not decided" rule=r err="spillgate: rule \"r\": header x`},
		{"an ambiguous key", failing(core.ErrBadKey), `level=WARN msg="spillgate: request not decided" rule=r`},
		{"a key func that fails", failing(boom), `level=ERROR msg="spillgate: request not decided" rule=r err="spillgate: rule \"r\": boom"`},
		{"a callback that panics", ouch, `stack="goroutine `},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := keepJournal(t)
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
			})
		})
	}
}

func TestFailuresOfRulesAreLoggedApart(t *testing.T) {
	log := keepJournal(t)
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
	log := keepJournal(t)
	l := withStore(&faulty{fault: unreachable}, []core.Rule{mode("r", core.FailClosed, 5)})
	for range 50 {
		l.Check(get("/"))
	}
	wantLines(t, log.String(), "the store is unavailable")
}

func TestWithLogger(t *testing.T) {
	other := keepJournal(t)
	log := new(journal)
	l := withStore(&faulty{fault: unreachable}, []core.Rule{failing(core.ErrNoKey), perHour("s", 5)}, core.WithLogger(log.logger()))
	l.Check(get("/"))
	for range 10 {
		l.Take(t.Context(), core.Claim{Rule: "s", Key: "k"})
	}
	wantLines(t, log.String(), "request not decided", "the store is unavailable")
	if other.String() != "" {
		t.Errorf("the default logger got %q", other.String())
	}
}

func TestErrorsLoggedByAnObserverAreNotLoggedAgain(t *testing.T) {
	log := keepJournal(t)
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
	}
	wantLines(t, log.String(), "request not decided\" rule=other", "held is charged\" rule=other")
}

func TestStackOfACallbackThatPanicked(t *testing.T) {
	l := core.Must(core.New([]core.Rule{allow10(func(r *core.Rule) { r.Cost = func(*http.Request) int { panic("ouch") } })}))
	_, err := l.Check(get("/"))
	var p interface {
		error
		Stack() []byte
	}
	if !errors.As(err, &p) || !strings.Contains(string(p.Stack()), "TestStackOfACallbackThatPanicked") {
		t.Errorf("got %v, want an error with the stack of the callback", err)
	}
}
