package core_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

func TestBan(t *testing.T) {
	s, fallback := new(settler), new(settler)
	l := withStore(s, []core.Rule{perHour("login", 5)}, core.WithFallback(fallback))
	must.Do(t, l.Ban(t.Context(), "login", "k", time.Hour))
	const longest = 10 * 365 * 24 * time.Hour
	must.Do(t, l.Ban(t.Context(), "login", "k", longest))
	s.want(t, "ban login 1h0m0s", "ban login 87600h0m0s")
	fallback.want(t, "ban login 1h0m0s", "ban login 87600h0m0s")
	for _, row := range []struct {
		rule, key string
		d         time.Duration
		kind      error
		want      string
	}{
		{"typo", "k", time.Hour, core.ErrInvalid, `spillgate: ban: there is no rule "typo"`},
		{"login", "", time.Hour, core.ErrNoKey, `spillgate: ban of rule "login": no key`},
		{"login", "k", 0, core.ErrInvalid, "spillgate: ban: duration must be more than 0 and at most"},
		{"login", "k", -1, core.ErrInvalid, "got -1ns"},
		{"login", "k", 11 * 365 * 24 * time.Hour, core.ErrInvalid, "got 96360h0m0s"},
		{"login", "k", longest + 1, core.ErrInvalid, "got 87600h0m0.000000001s"},
	} {
		wantError(t, l.Ban(t.Context(), row.rule, row.key, row.d), row.kind, row.want)
	}
	s.err = errUnreachable
	err := l.Ban(t.Context(), "login", "other", time.Hour)
	if !errors.Is(err, core.ErrUnavailable) || !strings.HasPrefix(err.Error(), "spillgate: store unavailable: ") {
		t.Errorf("got %v", err)
	}
	fallback.want(t, "ban login 1h0m0s", "ban login 87600h0m0s", "ban login 1h0m0s")
}

func TestBanFollowsTheLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("5/10m;ban=1h", core.Failures)
		for range 5 {
			if !handle(l, 0, 401) {
				t.Fatal("one of five was denied")
			}
		}
		for range 1000 {
			time.Sleep(time.Second)
			if handle(l, 0, 401) {
				t.Fatal("a request was admitted during the ban")
			}
		}
		time.Sleep(time.Hour - 1000*time.Second - time.Microsecond)
		if handle(l, 0, 401) {
			t.Error("a request was admitted 1µs before the end of the ban")
		}
		time.Sleep(time.Microsecond)
		if ran := parallel(l, 10, time.Second, 401); ran != 1 {
			t.Errorf("%d were admitted after the ban, want 1", ran)
		}
	})
}
