package adaptertest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// timeout bounds every wait of the suite.
const timeout = 20 * time.Second

// A server serves an App on loopback.
type server struct {
	*httptest.Server
	t           testing.TB
	problemType string // the content type of default pages
}

func (a Adapter) serve(t testing.TB, app App) *server {
	s := serveHandler(t, a.Build(app), false)
	if a.ProblemType != "" {
		s.problemType = a.ProblemType
	}
	return s
}

func serveHandler(t testing.TB, h http.Handler, http2 bool) *server {
	s := &server{httptest.NewUnstartedServer(h), t, "application/problem+json"}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	s.Client().Timeout = timeout
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
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	return s.send(r)
}

func (s *server) send(r *http.Request) reply {
	s.t.Helper()
	resp, err := s.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{resp, string(body), s.problemType}
}

func (r reply) wantStatus(t testing.TB, status int) {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("status = %d, want %d; header %v, body %s", r.StatusCode, status, r.Header, r.body)
	}
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
	if got := r.limiting(); !slices.Equal(got, want) {
		t.Errorf("fields\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// ok is a handler that responds with "ok".
func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// single is an App with one guard and the handler ok at "/".
func single(g Guard) App {
	return App{Guards: []Guard{g}, Routes: []Route{{Pattern: "/", Handler: ok}}}
}
