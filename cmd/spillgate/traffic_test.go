package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// The counts show which clients are served and which are denied.
func TestTraffic(t *testing.T) {
	p := must.Get(options{addr: "127.0.0.1:0", limits: "2/1h", key: "ip", headers: "github"}.plan())(t)
	h := must.Get(newApp(p))(t)
	s := httptest.NewServer(h)
	defer s.Close()
	callers := newCallers()
	for range 40 { // each at its rate, without the pauses
		for _, c := range callers {
			for n := range c.perSecond {
				c.request(t.Context(), s.Client(), s.URL, n)
			}
		}
	}
	table := trafficTable(callers)
	good, abuser, forger, pro, free := callers[0], callers[1], callers[2], callers[3], callers[4]
	guesser, knower := callers[5], callers[6]
	for _, c := range callers {
		if c.failed.Load() != 0 || !strings.Contains(table, c.name) {
			t.Errorf("%s: %d were not decided:\n%s", c.name, c.failed.Load(), table)
		}
	}
	if abuser.denied.Load() < abuser.served.Load() {
		t.Errorf("the abuser is not limited:\n%s", table)
	}
	if guesser.served.Load() != 5 || guesser.denied.Load() != 75 || knower.served.Load() != 80 {
		t.Errorf("want 5 wrong passwords and then denials, and 80 right ones served:\n%s", table)
	}
	if forger.denied.Load() == 0 || good.served.Load() == 0 {
		t.Errorf("the forger evades, or the good client is denied:\n%s", table)
	}
	if pro.served.Load() <= free.served.Load() {
		t.Errorf("the paid plan makes no difference:\n%s", table)
	}
	if got := httptest.NewRecorder(); true {
		h.ServeHTTP(got, httptest.NewRequest("GET", "http://localhost/", nil))
		if !strings.Contains(got.Body.String(), "<title>Rate limits") {
			t.Errorf("the page is not at /: %d", got.Code)
		}
	}
}

// Output that is no terminal gets the table once, at the end.
func TestShowTrafficOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var b lockedBuffer
	showTraffic(ctx, &b, newCallers())
	if got := b.b.String(); strings.Count(got, "SERVED") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}
