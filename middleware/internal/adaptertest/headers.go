package adaptertest

import (
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

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

// decisionFields are the fields of the default writer.
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
					if got.ProtoMajor == 2 != http2 {
						t.Fatalf("protocol %s", got.Proto)
					}
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
