// Package httprate checks what docs/moving/httprate.md says.
package httprate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
)

const client = "203.0.113.9:4000"

func TestBothAdmitTheSameNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]func() int{
			"before": func() int { return try.Admitted(before(try.OK), 150, client, "/") },
			"after":  func() int { return try.Admitted(after(try.OK), 150, client, "/") },
		} {
			if got := h(); got != 100 {
				t.Errorf("%s: admitted %d of 150, want 100", name, got)
			}
		}
	})
}

// The wait of httprate is a whole window, whatever was used when; that of Spillgate ends when a request fits.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := before(try.OK), after(try.OK)
		try.Admitted(old, 100, client, "/")
		try.Admitted(now, 100, client, "/")
		time.Sleep(50 * time.Second)
		if got := try.Get(old, client, "/").Header().Get("Retry-After"); got != "60" {
			t.Errorf("before: Retry-After %s, want 60", got)
		}
		got, err := time.ParseDuration(try.Get(now, client, "/").Header().Get("Retry-After") + "s")
		if err != nil || got > 16*time.Second {
			t.Fatalf("after: Retry-After %v, %v, want at most 16s", got, err)
		}
		time.Sleep(got)
		if code := try.Get(now, client, "/").Code; code != 200 {
			t.Errorf("after the wait: %d", code)
		}
	})
}

// Counts of the window before are weighed as if they had come evenly: more than the limit fit into a minute.
func TestAnEstimateAdmitsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := before(try.OK), after(try.OK)
		time.Sleep(59 * time.Second) // the windows of httprate begin with the limiter
		total, exact := try.Admitted(old, 100, client, "/"), try.Admitted(now, 100, client, "/")
		time.Sleep(31 * time.Second)
		total += try.Admitted(old, 100, client, "/")
		exact += try.Admitted(now, 100, client, "/")
		if total <= 100 || exact != 100 {
			t.Errorf("within 31s: httprate admitted %d, want more than 100; Spillgate %d, want 100", total, exact)
		}
	})
}

func TestErrorsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if w := try.Get(before(try.OK), "nobody", "/"); w.Code != 428 || w.Body.String() != "address nobody: missing port in address\n" {
			t.Errorf("before: %d %q", w.Code, w.Body)
		}
		if w := try.Get(after(try.OK), "nobody", "/"); w.Code != 500 && w.Code != 400 {
			t.Errorf("after: %d %q", w.Code, w.Body)
		}
	})
}

func TestJoinedKeysOfHTTPRateMeet(t *testing.T) {
	r := httprate.JoinKeys(httprate.Key("a:b"), httprate.Key("c"))
	s := httprate.JoinKeys(httprate.Key("a"), httprate.Key("b:c"))
	one, _ := r(nil)
	other, _ := s(nil)
	if one != other {
		t.Errorf("%q and %q differ", one, other)
	}
}
