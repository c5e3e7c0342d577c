// Package ulule checks what docs/moving/ulule-limiter.md says.
package ulule

import (
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

func handlers(t *testing.T) (*redistest.Server, map[string]http.Handler) {
	s := redistest.Start(t)
	old, err := before(s.Client(t), try.OK)
	if err != nil {
		t.Fatal(err)
	}
	now, err := after(s.Client(t), try.OK)
	if err != nil {
		t.Fatal(err)
	}
	return s, map[string]http.Handler{"before": old, "after": now}
}

func TestBothAdmitTheSameNumber(t *testing.T) {
	_, hs := handlers(t)
	for name, h := range hs {
		if got := try.Admitted(h, 1100, "203.0.113.9:4000", "/"); got < 1000 || got > 1000 && name == "before" {
			t.Errorf("%s: admitted %d of 1100, want 1000", name, got) // the hour may turn meanwhile
		}
	}
}

// ulule/limiter counts each IPv6 address by itself, and has no Retry-After.
func TestDifferences(t *testing.T) {
	_, hs := handlers(t)
	try.Admitted(hs["before"], 1001, "[2001:db8::1]:4000", "/")
	if w := try.Get(hs["before"], "[2001:db8::1]:4000", "/"); w.Code != 429 || w.Header().Get("Retry-After") != "" {
		t.Errorf("before: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	if code := try.Get(hs["before"], "[2001:db8::2]:4000", "/").Code; code != 200 {
		t.Errorf("before: another address of the network: %d", code)
	}
	var keys [2]string
	for i, from := range []string{"[2001:db8::1]:4000", "[2001:db8::2]:4000"} {
		keys[i], _ = keyfunc.RemoteIP(&http.Request{RemoteAddr: from})
	}
	if keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("after: got the keys %q, want one", keys)
	}
}

func TestRedisIsDown(t *testing.T) {
	s, hs := handlers(t)
	s.Kill()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("before: did not panic")
			}
		}()
		try.Get(hs["before"], "203.0.113.9:4000", "/")
	}()
	if got := try.Admitted(hs["after"], 1100, "203.0.113.9:4000", "/"); got < 1000 {
		t.Errorf("after: admitted %d of 1100, want 1000 by the memory of the process", got)
	}
	none := redis.NewClient(&redis.Options{Addr: redistest.FreeAddr(t), MaxRetries: -1})
	defer none.Close()
	if _, err := before(none, try.OK); err == nil {
		t.Error("before: made without a server")
	}
	if _, err := after(none, try.OK); err != nil {
		t.Errorf("after: %v", err)
	}
}
