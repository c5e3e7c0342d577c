package adaptertest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

var (
	errSecret = errors.New("dial tcp " + secret)
	errNoKey  = fmt.Errorf("%w: %s", core.ErrNoKey, secret)
	errBadKey = fmt.Errorf("%w: %s", core.ErrBadKey, secret)
)

func keyOf(key string, err error) core.KeyFunc {
	return func(*http.Request) (string, error) { return key, err }
}

type failure struct {
	why    string
	store  core.Store
	rule   core.Rule // without limits
	status int       // of the response
	kind   error     // of the error
}

func (f failure) limiter() *core.Limiter {
	f.rule.Limits = []core.Limit{core.PerMinute(1)}
	return newLimiter(f.store, f.rule)
}

var failures = []failure{
	{"no key", &script{}, core.Rule{Key: keyOf("", errNoKey)}, 400, core.ErrNoKey},
	{"an empty key counts as missing", &script{}, core.Rule{Key: keyOf("", nil)}, 400, core.ErrNoKey},
	{"an ambiguous key", &script{}, core.Rule{Key: keyOf("", errBadKey)}, 400, core.ErrBadKey},
	{"any other error of a key func", &script{}, core.Rule{Key: keyOf("", errSecret)}, 500, errSecret},
	{"a key func that panics", &script{}, core.Rule{Key: func(*http.Request) (string, error) { panic(secret) }}, 500, core.ErrInvalid},
	{"no key func", &script{}, core.Rule{}, 500, core.ErrInvalid},
	{"a negative cost", &script{}, core.Rule{Key: anyone, Cost: func(*http.Request) int { return -1 }}, 500, core.ErrInvalid},
	{"a bad tier", &script{}, core.Rule{Key: anyone, Tier: func(*http.Request) []core.Limit { return []core.Limit{{}} }}, 500, core.ErrInvalid},
	{"claims at fault", &script{err: fmt.Errorf("%w: %s", core.ErrInvalid, secret)}, core.Rule{Key: anyone}, 500, core.ErrInvalid},
	{"the store is down", &script{err: errSecret}, core.Rule{Key: anyone, OnFailure: core.FailClosed}, 503, core.ErrUnavailable},
	{"the store is down and finds no key", &script{err: fmt.Errorf("%w: %w: %s", core.ErrNoKey, core.ErrBadKey, secret)}, core.Rule{Key: anyone, OnFailure: core.FailClosed}, 503, core.ErrUnavailable},
}

// testFailure checks the default responses to requests that cannot be decided.
func testFailure(t *testing.T, a Adapter) {
	for _, row := range failures {
		t.Run(row.why, func(t *testing.T) {
			app := handling(mustNotServe(t), Guard{Limiter: row.limiter()})
			s := a.serve(t, app)
			got := s.get("/")
			var logged error
			app.Guards[0].Log = func(err error) { logged = err }
			wantSameAnswer(t, got, a.serve(t, app).get("/"))
			expect.ErrorIs(t, logged, row.kind, "logged")
			body := got.problem(t, row.status)
			kind, retry := "about:blank", []string(nil)
			if row.status == http.StatusServiceUnavailable {
				kind = problemTypes + "temporary-reduced-capacity"
				retry = []string{"Retry-After: 5"}
			}
			got.wantLimiting(t, retry...)
			title := http.StatusText(row.status)
			want := map[string]any{"type": kind, "title": title, "status": float64(row.status), "detail": body["detail"], "message": title}
			expect.True(t, reflect.DeepEqual(body, want), "body %v, want %v", body, want)
			s.do(http.MethodHead, "/").wantNoBody(t, row.status)
		})
	}
}

// testFailureModes checks the failure modes that admit requests while the store is down.
func testFailureModes(t *testing.T, a Adapter) {
	for why, row := range map[string]struct {
		mode core.FailureMode
		want []string
	}{
		"fail open admits without headers": {core.FailOpen, nil},
		"fail local enforces from memory":  {core.FailLocal, []string{"1", "0"}},
	} {
		t.Run(why, func(t *testing.T) {
			down := failure{store: &script{err: errSecret}, rule: core.Rule{Key: anyone, OnFailure: row.mode}}
			got := a.serve(t, single(Guard{Limiter: withOpenBreaker(t, down.limiter())})).get("/")
			got.wantStatus(t, 200)
			seen := append(got.Header["X-Ratelimit-Limit"], got.Header["X-Ratelimit-Remaining"]...)
			expect.True(t, fmt.Sprint(seen) == fmt.Sprint(row.want), "limit and remaining = %v, want %v", seen, row.want)
		})
	}
}

// withOpenBreaker returns l, whose store fails, once its breaker is open. Before that, a rule that fails open is enforced from memory.
func withOpenBreaker(t *testing.T, l *core.Limiter) *core.Limiter {
	for range 100 {
		if l.StoreHealth().Down {
			return l
		}
		must.Get(l.Take(t.Context(), core.Claim{Key: "const:other"}))(t)
	}
	t.Fatal("the breaker is closed after 100 failures")
	return nil
}

func wantSameAnswer(t *testing.T, one, other reply) {
	one.Header.Del("Date")
	other.Header.Del("Date")
	expect.True(t, one.StatusCode == other.StatusCode && one.body == other.body && reflect.DeepEqual(one.Header, other.Header),
		"status %d, header %v, body %s\nwritten by a handler: %d, %v, %s", one.StatusCode, one.Header, one.body, other.StatusCode, other.Header, other.body)
}

// testErrorHandler checks that an error handler gets each error, and writes the whole response.
func testErrorHandler(t *testing.T, a Adapter) {
	for _, row := range failures {
		t.Run(row.why, func(t *testing.T) {
			var calls atomic.Int32
			fail := func(w http.ResponseWriter, r *http.Request, err error) {
				calls.Add(1)
				expect.ErrorIs(t, err, row.kind, "error")
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, "<html>")
			}
			got := a.serve(t, handling(mustNotServe(t), Guard{Limiter: row.limiter(), Fail: fail})).get("/")
			got.wantStatus(t, http.StatusTeapot)
			got.wantLimiting(t)
			expect.True(t, got.body == "<html>" && !strings.Contains(got.Header.Get("Content-Type"), "json") && calls.Load() == 1,
				"header %v, body %q, %d calls", got.Header, got.body, calls.Load())
		})
	}
}

// testNilLimiter checks that a nil limiter panics where the adapter is made.
func testNilLimiter(t *testing.T, a Adapter) {
	expect.Fails(t, expect.PanicOf(func() { a.Build(single(Guard{})) }), "the panic of New(nil)")
}

// CheckOpaque checks that a rule that asks for a route admits nothing in front of a handler that does not know routes, and
// that the error says where to mount the limiter. Guard is the adapter.
func CheckOpaque(t *testing.T, guard func(Guard) func(http.Handler) http.Handler, advice string) {
	t.Helper()
	login := core.PerHour(1).By(anyone)
	login.Match = func(r *http.Request) bool { return core.RoutePattern(r) == "/login" }
	var failure error
	limit := guard(Guard{Limiter: newLimiter(new(core.MemoryStore), login), Log: func(err error) { failure = err }})
	w := httptest.NewRecorder()
	limit(mustNotServe(t)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login", nil))
	expect.True(t, w.Code == http.StatusInternalServerError && errors.Is(failure, core.ErrInvalid) && strings.Contains(failure.Error(), advice),
		"status %d, error %v", w.Code, failure)
}
