// Package httprate checks what docs/moving/httprate.md says.
package httprate

import (
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httprate"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
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

// The wait of httprate is a whole window, whatever was used when. The wait of Spillgate ends when a request fits.
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

func TestAnEmptyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := func(*http.Request) (string, error) { return "", nil }
		if got := try.Admitted(httprate.LimitBy(1, time.Minute, empty)(try.OK), 2, client, "/"); got != 1 {
			t.Errorf("before: admitted %d of 2, want 1", got)
		}
		after := stdlib.New(core.Must(core.New([]core.Rule{core.PerMinute(1).By(empty)})))(try.OK)
		if code := try.Get(after, client, "/").Code; code != 400 {
			t.Errorf("after: %d, want 400", code)
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

// In the first window both count alike, so all bytes are equal.
func TestSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Millisecond)
		old, now := before(try.OK), same(try.OK)
		for i := range 110 {
			time.Sleep(500 * time.Millisecond)
			if want, got := try.Wire(t, old, client, "/"), try.Wire(t, now, client, "/"); got != want {
				t.Fatalf("request %d:\n%s\nwant\n%s", i, got, want)
			}
		}
		if got := try.Get(now, client, "/").Code; got != 429 {
			t.Errorf("after 110 requests: %d, want 429", got)
		}
		failing := httprate.LimitBy(1, time.Minute, func(*http.Request) (string, error) { return "", http.ErrNoCookie })(try.OK)
		want, got := try.Get(failing, client, "/"), try.Get(now, "nobody", "/")
		if got.Code != want.Code || got.Body.String() != "no address\n" {
			t.Errorf("no key: %d %q, want %d", got.Code, got.Body, want.Code)
		}
	})
}

func limited(limits ...core.Limit) http.Handler {
	return stdlib.New(core.Must(core.New([]core.Rule{{Key: keyfunc.RemoteIP, Limits: limits}})))(try.OK)
}

func TestZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := httprate.LimitByIP(0, time.Minute)(try.OK)
		if w := try.Get(old, client, "/"); w.Code != 429 || w.Header().Get("Retry-After") != "60" {
			t.Errorf("before: %d %v", w.Code, w.Header())
		}
		if w := try.Get(limited(core.PerMinute(0)), client, "/"); w.Code != 429 || w.Header().Get("Retry-After") != "" {
			t.Errorf("after: %d %v", w.Code, w.Header())
		}
		inContext := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			before(try.OK).ServeHTTP(w, r.WithContext(httprate.WithRequestLimit(r.Context(), 0)))
		})
		if code := try.Get(inContext, client, "/").Code; code != 200 {
			t.Errorf("before, in the context: %d, want 200", code)
		}
		rule := core.PerMinute(100).By(keyfunc.RemoteIP)
		rule.Tier = func(*http.Request) []core.Limit { return []core.Limit{core.PerMinute(0)} }
		if code := try.Get(stdlib.New(core.Must(core.New([]core.Rule{rule})))(try.OK), client, "/").Code; code != 429 {
			t.Errorf("after, in a tier: %d, want 429", code)
		}
	})
}

func TestFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]http.Handler{
			"before": httprate.LimitByIP(10, 3*time.Second)(try.OK),
			"after":  limited(core.Every(10, 3*time.Second).Using(core.SlidingWindow)),
		} {
			if got := try.Admitted(h, 20, client, "/"); got != 10 {
				t.Errorf("%s: admitted %d of 20, want 10", name, got)
			}
		}
		short := httprate.LimitByIP(1, 500*time.Millisecond)(try.OK)
		try.Get(short, client, "/")
		if got := try.Get(short, client, "/").Header().Get("Retry-After"); got != "0" {
			t.Errorf("before, 500ms: Retry-After %s, want 0", got)
		}
		now := limited(core.Every(1, 500*time.Millisecond).Using(core.SlidingWindow))
		try.Get(now, client, "/")
		if got := try.Get(now, client, "/").Header().Get("Retry-After"); got != "1" {
			t.Errorf("after, 500ms: Retry-After %s, want 1", got)
		}
	})
}

// Behind RealIP, KeyByIP counts what the client sends, and RemoteIP and ClientIP fail.
func TestBehindRealIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
		clientIP, err := keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: proxies})
		if err != nil {
			t.Fatal(err)
		}
		by := func(key core.KeyFunc) http.Handler {
			return middleware.RealIP(stdlib.New(core.Must(core.New([]core.Rule{core.PerMinute(1).By(key)})))(try.OK))
		}
		outside := chi.NewRouter()
		if err := behindProxies(outside, proxies...); err != nil {
			t.Fatal(err)
		}
		outside.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.RemoteAddr)) }))
		for name, field := range map[string]string{
			"True-Client-IP": "192.0.2.1", "X-Real-IP": "192.0.2.1", "X-Forwarded-For": "192.0.2.1, 192.0.2.2",
		} {
			if code := try.Get(by(keyfunc.RemoteIP), "10.0.0.7:4000", "/", name, field).Code; code != 500 {
				t.Errorf("%s: RemoteIP: %d, want 500", name, code)
			}
			if code := try.Get(by(clientIP), "10.0.0.7:4000", "/", name, field).Code; code != 500 {
				t.Errorf("%s: ClientIP: %d, want 500", name, code)
			}
			if code := try.Get(by(keyfunc.RewrittenIP), "10.0.0.7:4000", "/", name, field).Code; code != 200 {
				t.Errorf("%s: RewrittenIP: %d, want 200", name, code)
			}
			if w := try.Get(outside, "10.0.0.7:4000", "/", name, field); w.Code != 200 || w.Body.String() != "192.0.2.1" {
				t.Errorf("%s: in front of RealIP: %d %s, want 200 and the address for the log", name, w.Code, w.Body)
			}
		}
		if code := try.Get(by(keyfunc.RemoteIP), "10.0.0.7:4000", "/").Code; code != 200 {
			t.Errorf("without a field: %d, want 200", code)
		}
	})
}

// One client sends a new address with each request.
func TestForgedAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside, found := chi.NewRouter(), chi.NewRouter()
		if err := behindProxies(outside, netip.MustParsePrefix("10.0.0.0/24")); err != nil {
			t.Fatal(err)
		}
		outside.Handle("/", try.OK)
		byClientIP(found, "10.0.0.0/24")
		found.Handle("/", try.OK)
		old := httprate.LimitByRealIP(100, time.Minute)(try.OK)
		rewritten := middleware.RealIP(httprate.LimitByIP(100, time.Minute)(try.OK))
		admitted := make(map[string]int)
		for i := range 200 {
			forged := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String()
			admitted["LimitByRealIP"] += try.Admitted(old, 1, client, "/", "X-Real-IP", forged)
			admitted["RealIP, then LimitByIP"] += try.Admitted(rewritten, 1, client, "/", "X-Real-IP", forged)
			chain := forged + ", 203.0.113.9" // the proxy appends the address of the client
			admitted["ClientIP"] += try.Admitted(outside, 1, "10.0.0.7:4000", "/", "X-Forwarded-For", chain)
			admitted["Address"] += try.Admitted(found, 1, "10.0.0.7:4000", "/", "X-Forwarded-For", chain)
		}
		for name, want := range map[string]int{"LimitByRealIP": 200, "RealIP, then LimitByIP": 200, "ClientIP": 100, "Address": 100} {
			if admitted[name] != want {
				t.Errorf("%s: admitted %d of 200, want %d", name, admitted[name], want)
			}
		}
	})
}
