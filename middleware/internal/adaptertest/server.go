package adaptertest

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// timeout bounds every wait of the suite.
const timeout = 20 * time.Second

type server struct {
	*httptest.Server
	t           testing.TB
	problemType string // the content type of default pages
}

func (a Adapter) serve(t testing.TB, app App, configure ...func(*http.Server)) *server {
	s := serveHandler(t, a.Build(app), false, configure...)
	if a.ProblemType != "" {
		s.problemType = a.ProblemType
	}
	return s
}

func serveHandler(t testing.TB, h http.Handler, http2 bool, configure ...func(*http.Server)) *server {
	s := &server{httptest.NewUnstartedServer(h), t, "application/problem+json"}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, f := range configure {
		f(s.Config)
	}
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(!http2)
	s.Config.Protocols.SetUnencryptedHTTP2(http2)
	s.Start()
	s.Client().Timeout = timeout
	s.Client().Transport.(*http.Transport).Protocols = s.Config.Protocols
	t.Cleanup(s.Close)
	return s
}

// A reply is a response that has been read to its end.
type reply struct {
	*http.Response
	body        string
	problemType string // the content type that a problem has
}

func (s *server) get(path string) reply { return s.do(http.MethodGet, path) }

// request sends a request, whose line is "GET /path".
func (s *server) request(line string) reply {
	s.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	return s.do(method, path)
}

// do sends a request with header fields, each "Name: value".
func (s *server) do(method, path string, fields ...string) reply {
	s.t.Helper()
	r, err := http.NewRequest(method, s.URL+path, nil)
	must.Do(s.t, err)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	return s.send(r)
}

func (s *server) send(r *http.Request) reply {
	s.t.Helper()
	resp, err := s.Client().Do(r)
	must.Do(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must.Do(s.t, err)
	return reply{resp, string(body), s.problemType}
}

func (r reply) wantStatus(t testing.TB, status int) {
	t.Helper()
	expect.Equal(t, r.StatusCode, status, "status; header %v, body %s", r.Header, r.body)
}

// limiting returns the rate limit fields of r, sorted, as "Name: value".
func (r reply) limiting() []string {
	var fields []string
	for name, values := range r.Header {
		if strings.Contains(strings.ToLower(name), "ratelimit") || name == "Retry-After" {
			for _, v := range values {
				fields = append(fields, name+": "+v)
			}
		}
	}
	slices.Sort(fields)
	return fields
}

// wantLimiting checks that r has exactly these rate limit fields, each with one value.
func (r reply) wantLimiting(t testing.TB, want ...string) {
	t.Helper()
	slices.Sort(want)
	got := r.limiting()
	expect.True(t, slices.Equal(got, want), "fields\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
}

// ok is a handler that responds with "ok".
func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// single is an App with one guard and the handler ok at "/".
func single(g Guard) App { return handling(ok, g) }

// handling is an App with a handler at "/".
func handling(h http.HandlerFunc, guards ...Guard) App {
	return App{Guards: guards, Routes: []Route{{Pattern: "/", Handler: h}}}
}

// mustNotServe is a handler of requests that are not admitted.
func mustNotServe(t *testing.T) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }
}

// A script is a store that returns fixed results and records the requested keys.
type script struct {
	at      time.Time
	results []core.Result
	err     error

	mu   sync.Mutex
	keys []string
}

func (s *script) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		s.keys = append(s.keys, c.Key)
	}
	for _, r := range s.results {
		r.At = s.at
		dst = append(dst, r)
	}
	return dst, s.err
}

func (s *script) Settle(context.Context, []core.Settlement) error { return s.err }

func (s *script) Reset(context.Context, []core.Pair) error { return s.err }

// asked returns the keys since the last call.
func (s *script) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keys
	s.keys = nil
	return keys
}

// noon is 2026-01-01T12:00:00Z.
var noon = time.Unix(1767268800, 0)

// scripted returns a limiter that decides at noon with these results, a rule for each.
func scripted(results ...core.Result) *core.Limiter {
	return newLimiter(&script{at: noon, results: results}, rulesOf(results)...)
}

func rulesOf(results []core.Result) (rules []core.Rule) {
	for _, t := range results {
		rules = append(rules, core.Rule{Name: t.Rule, Limits: []core.Limit{t.Limit}, DryRun: t.DryRun, Key: anyone})
	}
	return rules
}

// newLimiter returns a limiter that waits for its store even on a busy machine.
func newLimiter(s core.Store, rules ...core.Rule) *core.Limiter {
	return core.Must(core.New(rules, core.WithStore(s), core.WithTimeout(timeout), core.WithLogger(slog.New(slog.DiscardHandler))))
}

// counting returns a limiter of n per hour in memory, of which nothing refills during a test.
func counting(n int) *core.Limiter {
	return newLimiter(new(core.MemoryStore), core.PerHour(n).Using(core.SlidingLog).By(anyone))
}

// anyone is a key func whose key must not be in any response.
func anyone(*http.Request) (string, error) { return "user:" + secret, nil }

// secret is contained in keys and in the texts of errors.
const secret = "hunter2"

func allowed(rule string, l core.Limit, remaining int, refill, reset time.Duration) core.Result {
	return core.Result{Rule: rule, Limit: l, Allowed: true, Remaining: remaining, RefillAfter: refill, ResetAfter: reset}
}

func denied(t core.Result, retry time.Duration) core.Result {
	t.Allowed, t.RetryAfter = false, retry
	return t
}

func dryRun(t core.Result) core.Result {
	t.DryRun = true
	return t
}

// Admitting is a store that admits every request.
type Admitting struct{}

func (Admitting) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for _, c := range claims {
		dst = append(dst, core.Result{Rule: c.Rule, Limit: c.Limits[0], Allowed: true})
	}
	return dst, nil
}

func (Admitting) Settle(context.Context, []core.Settlement) error { return nil }
func (Admitting) Reset(context.Context, []core.Pair) error        { return nil }
