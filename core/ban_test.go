package core_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestBan(t *testing.T) {
	s, fallback := new(settler), new(settler)
	l := withStore(s, []core.Rule{perHour("login", 5)}, core.WithFallback(fallback))
	if err := l.Ban(t.Context(), "login", "k", time.Hour); err != nil {
		t.Fatal(err)
	}
	s.want(t, "ban login 1h0m0s")
	fallback.want(t, "ban login 1h0m0s")
	for _, row := range []struct {
		rule, key string
		d         time.Duration
		kind      error
		want      string
	}{
		{"typo", "k", time.Hour, core.ErrInvalid, `spillgate: ban: there is no rule "typo"`},
		{"login", "", time.Hour, core.ErrNoKey, `spillgate: ban of rule "login": no key`},
		{"login", "k", 0, core.ErrInvalid, "spillgate: ban: duration must be between 0 and"},
		{"login", "k", -1, core.ErrInvalid, "got -1ns"},
		{"login", "k", 11 * 365 * 24 * time.Hour, core.ErrInvalid, "got 96360h0m0s"},
	} {
		wantError(t, l.Ban(t.Context(), row.rule, row.key, row.d), row.kind, row.want)
	}
	s.err = errRefused
	err := l.Ban(t.Context(), "login", "other", time.Hour)
	if !errors.Is(err, core.ErrUnavailable) || !strings.HasPrefix(err.Error(), "spillgate: store unavailable: ") {
		t.Errorf("got %v", err)
	}
	fallback.want(t, "ban login 1h0m0s", "ban login 1h0m0s")
}
