package adaptertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// testCount checks that exactly the limit is admitted, and that a denied request does not reach the handler.
func testCount(t *testing.T, a Adapter) {
	var served atomic.Int32
	s := a.serve(t, App{Guards: []Guard{{Limiter: counting(3)}}, Routes: []Route{{Pattern: "/", Handler: func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		ok(w, r)
	}}}})
	for i := range 5 {
		got := s.get("/")
		want, remaining := 200, fmt.Sprint(2-i)
		if i >= 3 {
			want, remaining = 429, "0"
		}
		got.wantStatus(t, want)
		expect.Equal(t, got.Header.Get("X-RateLimit-Remaining"), remaining, "request %d: Remaining", i+1)
		if i < 3 && (got.body != "ok" || got.Header.Get("Cache-Control") != "") {
			t.Errorf("request %d: body %q, Cache-Control %q; want the handler's answer alone", i+1, got.body, got.Header.Get("Cache-Control"))
		}
	}
	expect.Equal(t, served.Load(), 3, "how often the handler ran")
}

// testDenial checks the body of the default response, and that the response to HEAD has none.
func testDenial(t *testing.T, a Adapter) {
	for _, row := range []struct {
		why      string
		results  []core.Result
		status   int
		violated []any
		detail   string
	}{
		{"denied", []core.Result{hourly, empty}, 429, []any{"api"}, "Too many requests in too short a time"},
		{"all that deny", []core.Result{denied(hourly, 1), empty}, 429, []any{"hour", "api"}, "Too many requests in too short a time"},
		{"a month", []core.Result{empty, monthly}, 429, []any{"api", "plan"}, "The quota is used up"},
		{"a month that ends first", []core.Result{denied(empty, 720*time.Hour), monthly}, 429, []any{"api", "plan"}, "Too many requests in too short a time"},
		{"a dry run of a month", []core.Result{empty, dryRun(monthly)}, 429, []any{"api"}, "Too many requests in too short a time"},
		{"above the capacity", []core.Result{tooBig}, 413, []any{"api"}, "The request costs more than is ever admitted at once"},
		{"rate 0", []core.Result{never}, 429, []any{"closed"}, "Such requests are not allowed"},
		{"a month and rate 0", []core.Result{monthly, never}, 429, []any{"plan", "closed"}, "Such requests are not allowed"},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := a.serve(t, single(Guard{Limiter: scripted(row.results...)}))
			reply := s.get("/")
			wantSameAnswer(t, reply, a.extendedDenial(t, row.results))
			got := reply.problem(t, row.status)
			detail, _, _ := strings.Cut(fmt.Sprint(got["detail"]), ";")
			expect.Equal(t, detail, row.detail, "detail")
			want := map[string]any{
				"type": problemTypes + "quota-exceeded", "title": http.StatusText(row.status), "status": float64(row.status),
				"detail": got["detail"], "violated-policies": row.violated, "message": "API rate limit exceeded",
			}
			expect.True(t, reflect.DeepEqual(got, want), "body %v\nwant %v", got, want)
			s.do(http.MethodHead, "/").wantNoBody(t, row.status)
			s.do(http.MethodPost, "/").problem(t, row.status)
		})
	}
}

// extendedDenial returns the response to a denied request whose deny handler adds a header field and calls
// WriteDenial. It checks and removes the field.
func (a Adapter) extendedDenial(t *testing.T, results []core.Result) reply {
	const field = "X-Denied-By"
	s := a.serve(t, single(Guard{Limiter: scripted(results...), Denied: func(h http.Header, d core.Decision) {
		tightest, _ := d.Tightest()
		h.Set(field, tightest.Rule)
	}}))
	s.do(http.MethodHead, "/")
	got := s.get("/")
	expect.NotEqual(t, got.Header.Get(field), "", "the deny handler's header field is missing: %v", got.Header)
	got.Header.Del(field)
	return got
}

// problem checks that r is a problem of this status that reveals no secret, and returns its members.
func (r reply) problem(t testing.TB, status int) map[string]any {
	t.Helper()
	r.wantStatus(t, status)
	got := r.Header["Content-Type"]
	expect.True(t, len(got) == 1 && got[0] == r.problemType, "Content-Type = %q, want %s", got, r.problemType)
	got = r.Header["Cache-Control"]
	expect.True(t, len(got) == 1 && got[0] == "no-store", "Cache-Control = %q", got)
	var members map[string]any
	expect.NoError(t, json.Unmarshal([]byte(r.body), &members), "body %q", r.body)
	detail, _ := members["detail"].(string)
	expect.NotEqual(t, detail, "", "there is no detail")
	all := fmt.Sprint(r.Header, r.body)
	expect.True(t, !strings.Contains(all, secret) && !strings.Contains(all, "spillgate"), "the answer reveals internals: %s", all)
	return members
}

// wantNoBody checks a response to HEAD, which has no body and no content type.
func (r reply) wantNoBody(t testing.TB, status int) {
	t.Helper()
	r.wantStatus(t, status)
	expect.True(t, r.body == "" && r.Header.Get("Content-Type") == "",
		"HEAD: body %q of type %q, want none", r.body, r.Header.Get("Content-Type"))
	expect.Equal(t, r.Header.Get("Cache-Control"), "no-store", "HEAD: Cache-Control")
}

// testDenyHandler checks that a deny handler writes the whole response, and that the decision is in its context.
func testDenyHandler(t *testing.T, a Adapter) {
	deny := func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		inContext, _ := core.FromContext(r.Context())
		expect.True(t, reflect.DeepEqual(inContext, d) && !d.Allowed, "argument %+v, context %+v; want the denial", d, inContext)
		tightest, _ := d.Tightest()
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "<html>"+tightest.Rule+" "+w.Header().Get("Retry-After"))
	}
	got := a.serve(t, single(Guard{Limiter: scripted(empty), Deny: deny})).get("/")
	got.wantStatus(t, http.StatusTeapot)
	got.wantLimiting(t, and(gitHub("100", "0", "100", "1767268801", "api"), "Retry-After: 1")...)
	expect.True(t, got.body == "<html>api 1" && !strings.Contains(got.Header.Get("Content-Type"), "json") && got.Header.Get("Cache-Control") == "no-store",
		"header %v, body %q", got.Header, got.body)
	a.serve(t, single(Guard{Limiter: scripted(half), Deny: deny})).get("/").wantStatus(t, 200)
}

// testAtOnce checks a limit of requests in flight: a request takes a place until its handler has ended, however it ends.
// Only a denial shows such a limit.
func testAtOnce(t *testing.T, a Adapter) {
	for why, end := range map[string]func(w http.ResponseWriter){
		"returns": func(http.ResponseWriter) {},
		"panics":  func(http.ResponseWriter) { panic("oops") },
		"aborts":  func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		for _, final := range []func(*http.Request, core.Outcome) int{nil, core.Failures} {
			t.Run(fmt.Sprintf("%s, watched %v", why, final != nil), func(t *testing.T) { a.oneAtOnce(t, end, final) })
		}
	}
}

func (a Adapter) oneAtOnce(t *testing.T, end func(http.ResponseWriter), final func(*http.Request, core.Outcome) int) {
	l := newLimiter(new(core.MemoryStore), core.Rule{Name: "up", Key: anyone, Limits: []core.Limit{core.AtOnce(1)}, CostAfter: final})
	started, release := make(chan bool), make(chan bool)
	first := true
	app := a.Build(App{Guards: []Guard{{Limiter: l}, {Limiter: l}}, Routes: []Route{{Pattern: "/", Handler: func(w http.ResponseWriter, r *http.Request) {
		if !first {
			ok(w, r)
			return
		}
		first = false
		close(started)
		<-release
		end(w)
	}}}})
	ended := make(chan bool, 9)
	s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- true }()
		app.ServeHTTP(w, r)
	}), false)
	go func() {
		if resp, err := s.Client().Get(s.URL); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-started
	denied := s.get("/")
	<-ended
	denied.wantStatus(t, http.StatusTooManyRequests)
	if h := denied.Header; h.Get("Retry-After") != "1" || h.Get("X-RateLimit-Limit") != "1" || h.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("denied with %v", h)
	}
	close(release)
	<-ended
	got := s.get("/")
	got.wantStatus(t, http.StatusOK)
	got.wantLimiting(t)
}

var (
	perMinute = core.PerMinute(100)
	perHour   = core.PerHour(1000)

	half    = allowed("api", perMinute, 50, 600*time.Millisecond, 30*time.Second)
	last    = allowed("api", perMinute, 0, 600*time.Millisecond, time.Minute)
	empty   = denied(last, 600*time.Millisecond)
	hourly  = allowed("hour", perHour, 400, 4*time.Second, 2160*time.Second)
	costly  = denied(allowed("api", perMinute, 3, 600*time.Millisecond, time.Minute), 1200*time.Millisecond)
	tooBig  = denied(allowed("api", perMinute, 97, 600*time.Millisecond, 1800*time.Millisecond), core.Never)
	monthly = denied(allowed("plan", core.PerMonth(1000), 0, 360*time.Hour, 360*time.Hour), 360*time.Hour)
	never   = denied(allowed("closed", core.PerMinute(0), 0, 0, 0), core.Never)
	halfSet = gitHub("100", "50", "50", "1767268830", "api")
)

func gitHub(limit, remaining, used, reset, rule string) []string {
	return []string{
		"X-Ratelimit-Limit: " + limit, "X-Ratelimit-Remaining: " + remaining, "X-Ratelimit-Used: " + used,
		"X-Ratelimit-Reset: " + reset, "X-Ratelimit-Resource: " + rule,
	}
}

func and(fields []string, more ...string) []string {
	return append(fields[:len(fields):len(fields)], more...)
}

var decisionFields = []struct {
	why     string
	results []core.Result
	status  int
	want    []string
}{
	{"allowed: Reset is when the whole capacity is back", []core.Result{half}, 200, halfSet},
	{"the last one: Reset is when one more fits, no Retry-After", []core.Result{last}, 200, gitHub("100", "0", "100", "1767268801", "api")},
	{"denied", []core.Result{empty}, 429, and(gitHub("100", "0", "100", "1767268801", "api"), "Retry-After: 1")},
	{"denied for its cost: Remaining 0 makes clients wait", []core.Result{costly}, 429, and(gitHub("100", "0", "100", "1767268802", "api"), "Retry-After: 2")},
	{"above the capacity: the truth, and no Retry-After", []core.Result{tooBig}, 413, gitHub("100", "97", "3", "1767268802", "api")},
	{"rate 0 is not the fault of the cost", []core.Result{never}, 429, gitHub("0", "0", "0", "1767268800", "closed")},
	{"the tightest is shown", []core.Result{half, hourly}, 200, gitHub("1000", "400", "600", "1767270960", "hour")},
	{"a denied limit is tighter than any other", []core.Result{hourly, empty}, 429, and(gitHub("100", "0", "100", "1767268801", "api"), "Retry-After: 1")},
	{"a dry run never shows", []core.Result{dryRun(denied(allowed("trial", perHour, 0, time.Second, time.Hour), time.Second)), half}, 200, halfSet},
	{"a dry run alone is not shown", []core.Result{dryRun(empty)}, 200, nil},
}

// testHeaders checks the fields of the default writer over HTTP/1.1 and HTTP/2, for GET and HEAD.
func testHeaders(t *testing.T, a Adapter) {
	for _, row := range decisionFields {
		for _, http2 := range []bool{false, true} {
			s := serveHandler(t, a.Build(single(Guard{Limiter: scripted(row.results...)})), http2)
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				t.Run(row.why+", "+method, func(t *testing.T) {
					got := s.do(method, "/")
					must.Equal(t, got.ProtoMajor == 2, http2, "protocol %s", got.Proto)
					got.wantStatus(t, row.status)
					got.wantLimiting(t, row.want...)
				})
			}
		}
	}
}

var ietf = []string{`Ratelimit-Policy: "api";q=100;w=60`}

// writerFields are the fields of other writers, for half and empty.
var writerFields = []struct {
	why             string
	write           headers.Writer
	allowed, denied []string
}{
	{"nil is the default", nil, halfSet, and(gitHub("100", "0", "100", "1767268801", "api"), "Retry-After: 1")},
	{"IETF", headers.IETF, and(ietf, `Ratelimit: "api";r=50;t=1`), and(ietf, `Ratelimit: "api";r=0;t=1`, "Retry-After: 1")},
	{"None", headers.None, nil, nil},
	{"Join", headers.Join(headers.GitHub, headers.IETF), and(halfSet, `Ratelimit-Policy: "api";q=100;w=60`, `Ratelimit: "api";r=50;t=1`),
		and(gitHub("100", "0", "100", "1767268801", "api"), `Ratelimit-Policy: "api";q=100;w=60`, `Ratelimit: "api";r=0;t=1`, "Retry-After: 1")},
	{"Custom", headers.Custom{Reset: headers.DeltaSeconds}.Write, gitHub("100", "50", "50", "30", "api"), and(gitHub("100", "0", "100", "1", "api"), "Retry-After: 1")},
}

// testWriters checks WithHeaders, on an allowed and on a denied request.
func testWriters(t *testing.T, a Adapter) {
	for _, row := range writerFields {
		t.Run(row.why, func(t *testing.T) {
			a.serve(t, single(Guard{Limiter: scripted(half), Headers: row.write})).get("/").wantLimiting(t, row.allowed...)
			a.serve(t, single(Guard{Limiter: scripted(empty), Headers: row.write})).get("/").wantLimiting(t, row.denied...)
		})
	}
}
