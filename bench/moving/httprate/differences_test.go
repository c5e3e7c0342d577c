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
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func TestBothAdmitTheSameNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]func() int{
			"before": func() int { return try.Admitted(before(try.OK), 150, try.Client, "/") },
			"after":  func() int { return try.Admitted(after(try.OK), 150, try.Client, "/") },
		} {
			expect.Equal(t, h(), 100, "%s: admitted of 150", name)
		}
	})
}

// The wait of httprate is a whole window, whatever was used when. The wait of Spillgate ends when a request fits.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := before(try.OK), after(try.OK)
		try.Admitted(old, 100, try.Client, "/")
		try.Admitted(now, 100, try.Client, "/")
		time.Sleep(50 * time.Second)
		expect.Equal(t, try.Get(old, try.Client, "/").Header().Get("Retry-After"), "60", "before: Retry-After")
		got, err := time.ParseDuration(try.Get(now, try.Client, "/").Header().Get("Retry-After") + "s")
		must.True(t, err == nil && got <= 16*time.Second, "after: Retry-After %v, %v, want at most 16s", got, err)
		time.Sleep(got)
		expect.Equal(t, try.Get(now, try.Client, "/").Code, 200, "after the wait")
	})
}

// Counts of the window before are weighed as if they had come evenly: more than the limit fit into a minute.
func TestAnEstimateAdmitsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := before(try.OK), after(try.OK)
		time.Sleep(59 * time.Second) // the windows of httprate begin with the limiter
		total, exact := try.Admitted(old, 100, try.Client, "/"), try.Admitted(now, 100, try.Client, "/")
		time.Sleep(31 * time.Second)
		total += try.Admitted(old, 100, try.Client, "/")
		exact += try.Admitted(now, 100, try.Client, "/")
		expect.True(t, total > 100 && exact == 100,
			"within 31s: httprate admitted %d, want more than 100; Spillgate %d, want 100", total, exact)
	})
}

func TestErrorsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if w := try.Get(before(try.OK), "nobody", "/"); w.Code != 428 || w.Body.String() != "address nobody: missing port in address\n" {
			t.Errorf("before: %d %q", w.Code, w.Body)
		}
		w := try.Get(after(try.OK), "nobody", "/")
		expect.True(t, w.Code == 500 || w.Code == 400, "after: %d %q", w.Code, w.Body)
	})
}

func TestAnEmptyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := func(*http.Request) (string, error) { return "", nil }
		expect.Equal(t, try.Admitted(httprate.LimitBy(1, time.Minute, empty)(try.OK), 2, try.Client, "/"), 1, "before: admitted of 2")
		after := stdlib.New(core.Must(core.New([]core.Rule{core.PerMinute(1).By(empty)})))(try.OK)
		expect.Equal(t, try.Get(after, try.Client, "/").Code, 400, "after")
	})
}

func TestJoinedKeysOfHTTPRateMeet(t *testing.T) {
	r := httprate.JoinKeys(httprate.Key("a:b"), httprate.Key("c"))
	s := httprate.JoinKeys(httprate.Key("a"), httprate.Key("b:c"))
	one, _ := r(nil)
	other, _ := s(nil)
	expect.True(t, one == other, "%q and %q differ", one, other)
}

// In the first window both count alike, so all bytes are equal.
func TestSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Millisecond)
		old, now := before(try.OK), same(try.OK)
		for i := range 110 {
			time.Sleep(500 * time.Millisecond)
			must.Equal(t, try.Wire(t, now, try.Client, "/"), try.Wire(t, old, try.Client, "/"), "request %d", i)
		}
		expect.Equal(t, try.Get(now, try.Client, "/").Code, 429, "after 110 requests")
		failing := httprate.LimitBy(1, time.Minute, func(*http.Request) (string, error) { return "", http.ErrNoCookie })(try.OK)
		want, got := try.Get(failing, try.Client, "/"), try.Get(now, "nobody", "/")
		expect.True(t, got.Code == want.Code && got.Body.String() == "no address\n",
			"no key: %d %q, want %d", got.Code, got.Body, want.Code)
	})
}

func TestZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := try.Get(httprate.LimitByIP(0, time.Minute)(try.OK), try.Client, "/")
		expect.True(t, w.Code == 429 && w.Header().Get("Retry-After") == "60", "before: %d %v", w.Code, w.Header())
		w = try.Get(try.Limited(core.PerMinute(0)), try.Client, "/")
		expect.True(t, w.Code == 429 && w.Header().Get("Retry-After") == "", "after: %d %v", w.Code, w.Header())
		inContext := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			before(try.OK).ServeHTTP(w, r.WithContext(httprate.WithRequestLimit(r.Context(), 0)))
		})
		expect.Equal(t, try.Get(inContext, try.Client, "/").Code, 200, "before, in the context")
		rule := core.PerMinute(100).By(keyfunc.RemoteIP)
		rule.Tier = func(*http.Request) []core.Limit { return []core.Limit{core.PerMinute(0)} }
		expect.Equal(t, try.Get(stdlib.New(core.Must(core.New([]core.Rule{rule})))(try.OK), try.Client, "/").Code, 429, "after, in a tier")
	})
}

func TestFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]http.Handler{
			"before": httprate.LimitByIP(10, 3*time.Second)(try.OK),
			"after":  try.Limited(core.Every(10, 3*time.Second).Using(core.SlidingWindow)),
		} {
			expect.Equal(t, try.Admitted(h, 20, try.Client, "/"), 10, "%s: admitted of 20", name)
		}
		short := httprate.LimitByIP(1, 500*time.Millisecond)(try.OK)
		try.Get(short, try.Client, "/")
		expect.Equal(t, try.Get(short, try.Client, "/").Header().Get("Retry-After"), "0", "before, 500ms: Retry-After")
		now := try.Limited(core.Every(1, 500*time.Millisecond).Using(core.SlidingWindow))
		try.Get(now, try.Client, "/")
		expect.Equal(t, try.Get(now, try.Client, "/").Header().Get("Retry-After"), "1", "after, 500ms: Retry-After")
	})
}

// Behind RealIP, KeyByIP counts what the client sends, and RemoteIP and ClientIP fail.
func TestBehindRealIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
		clientIP := must.Get(keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: proxies}))(t)
		by := func(key core.KeyFunc) http.Handler {
			return middleware.RealIP(stdlib.New(core.Must(core.New([]core.Rule{core.PerMinute(1).By(key)})))(try.OK))
		}
		outside := chi.NewRouter()
		must.Do(t, behindProxies(outside, proxies...))
		outside.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.RemoteAddr)) }))
		for name, field := range map[string]string{
			"True-Client-IP": "192.0.2.1", "X-Real-IP": "192.0.2.1", "X-Forwarded-For": "192.0.2.1, 192.0.2.2",
		} {
			expect.Equal(t, try.Get(by(keyfunc.RemoteIP), "10.0.0.7:4000", "/", name, field).Code, 500, "%s: RemoteIP", name)
			expect.Equal(t, try.Get(by(clientIP), "10.0.0.7:4000", "/", name, field).Code, 500, "%s: ClientIP", name)
			expect.Equal(t, try.Get(by(keyfunc.RewrittenIP), "10.0.0.7:4000", "/", name, field).Code, 200, "%s: RewrittenIP", name)
			if w := try.Get(outside, "10.0.0.7:4000", "/", name, field); w.Code != 200 || w.Body.String() != "192.0.2.1" {
				t.Errorf("%s: in front of RealIP: %d %s, want 200 and the address for the log", name, w.Code, w.Body)
			}
		}
		expect.Equal(t, try.Get(by(keyfunc.RemoteIP), "10.0.0.7:4000", "/").Code, 200, "without a field")
	})
}

// One client sends a new address with each request.
func TestForgedAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside, found := chi.NewRouter(), chi.NewRouter()
		must.Do(t, behindProxies(outside, netip.MustParsePrefix("10.0.0.0/24")))
		outside.Handle("/", try.OK)
		byClientIP(found, "10.0.0.0/24")
		found.Handle("/", try.OK)
		old := httprate.LimitByRealIP(100, time.Minute)(try.OK)
		rewritten := middleware.RealIP(httprate.LimitByIP(100, time.Minute)(try.OK))
		admitted := make(map[string]int)
		for i := range 200 {
			forged := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String()
			admitted["LimitByRealIP"] += try.Admitted(old, 1, try.Client, "/", "X-Real-IP", forged)
			admitted["RealIP, then LimitByIP"] += try.Admitted(rewritten, 1, try.Client, "/", "X-Real-IP", forged)
			chain := forged + ", 203.0.113.9" // the proxy appends the address of the client
			admitted["ClientIP"] += try.Admitted(outside, 1, "10.0.0.7:4000", "/", "X-Forwarded-For", chain)
			admitted["Address"] += try.Admitted(found, 1, "10.0.0.7:4000", "/", "X-Forwarded-For", chain)
		}
		for name, want := range map[string]int{"LimitByRealIP": 200, "RealIP, then LimitByIP": 200, "ClientIP": 100, "Address": 100} {
			expect.Equal(t, admitted[name], want, "%s: admitted of 200", name)
		}
	})
}
