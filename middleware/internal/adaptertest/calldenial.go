package adaptertest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// callers are calls in each protocol.
var callers = map[string]call{
	"gRPC":          {contentType: "application/grpc"},
	"gRPC proto":    {contentType: "application/grpc+proto"},
	"gRPC-Web":      {contentType: web},
	"gRPC-Web text": {contentType: text},
	"stream":        {contentType: stream, version: "1"},
	"unary":         {contentType: "application/proto", version: "1"},
	"GET":           {get: true},
}

// A callDenial is the part of a response that tells a client that its call is not admitted.
type callDenial struct {
	code     int
	name     string   // of the code
	http     int      // status of a unary response of Connect
	pushback string   // grpc-retry-pushback-ms
	details  []string // names and values
}

// Values of details, as protobuf.
const (
	retryIn1s    = "google.rpc.RetryInfo \n\x02\x08\x01"
	retryIn5s    = "google.rpc.RetryInfo \n\x02\x08\x05"
	retryIn15ms  = "google.rpc.RetryInfo \n\x05\x10\xc0\xc3\x93\x07"
	retryIn2h    = "google.rpc.RetryInfo \n\x03\x08\xa08"
	retryIn1m    = "google.rpc.RetryInfo \n\x02\x08\x3c"
	retryIn1m1ms = "google.rpc.RetryInfo \n\x06\x08\x3c\x10\xc0\x84\x3d"
	quotaAPI     = "google.rpc.QuotaFailure \n\x05\n\x03api"
	retryIn15d   = "google.rpc.RetryInfo \n\x04\x08\x80\x8dO"
	quotaPlan    = "google.rpc.QuotaFailure \n\x05\n\x03api\n\x06\n\x04plan"
	quotaTwo     = "google.rpc.QuotaFailure \n\x06\n\x04hour\n\x05\n\x03api"
	quotaClosed  = "google.rpc.QuotaFailure \n\x08\n\x06closed"
)

// wantCallDenial checks a response to c and returns its message.
func (r reply) wantCallDenial(t *testing.T, c call, want callDenial) (message string) {
	t.Helper()
	if all := fmt.Sprint(r.Header, r.body); strings.Contains(all, secret) || strings.Contains(all, "spillgate") {
		t.Errorf("the response reveals internals: %s", all)
	}
	if got := r.Header["Cache-Control"]; len(got) != 1 || got[0] != "no-store" {
		t.Errorf("Cache-Control = %q", got)
	}
	status, contentType := http.StatusOK, c.contentType
	var failure struct {
		Code, Message string
		Details       []struct{ Type, Value string }
	}
	var details []string
	var err error
	switch {
	case c.get, c.contentType == "application/proto":
		status, contentType = want.http, "application/json"
		err = json.Unmarshal([]byte(r.body), &failure)
	case c.contentType == stream:
		var end struct{ Error json.RawMessage }
		if len(r.body) < 5 || r.body != frame(2, r.body[5:]) {
			t.Fatalf("body %q is no envelope", r.body)
		}
		_ = json.Unmarshal([]byte(r.body[5:]), &end)
		err = json.Unmarshal(end.Error, &failure)
	default:
		failure.Message = r.Header.Get("Grpc-Message")
		if code := r.Header.Get("Grpc-Status"); code != fmt.Sprint(want.code) || r.body != "" || len(r.Trailer) > 0 {
			t.Errorf("Grpc-Status %q, body %q, trailer %v", code, r.body, r.Trailer)
		}
		if got := r.Header.Get("Grpc-Retry-Pushback-Ms"); got != want.pushback {
			t.Errorf("pushback %q, want %q", got, want.pushback)
		}
		failure.Code = want.name
		bin, err := base64.RawStdEncoding.DecodeString(r.Header.Get("Grpc-Status-Details-Bin"))
		message := fmt.Sprintf("\x08%c\x12%c%s", want.code, len(failure.Message), failure.Message)
		for _, d := range want.details {
			name, value, _ := strings.Cut(d, " ")
			name = "type.googleapis.com/" + name
			one := fmt.Sprintf("\n%c%s\x12%c%s", len(name), name, len(value), value)
			message += fmt.Sprintf("\x1a%c%s", len(one), one)
		}
		if string(bin) != message || err != nil {
			t.Errorf("details %q, want %q", bin, message)
		}
		details = want.details
	}
	for _, d := range failure.Details {
		value, err := base64.RawStdEncoding.DecodeString(d.Value)
		if err != nil {
			t.Error(err)
		}
		details = append(details, d.Type+" "+string(value))
	}
	if err != nil || failure.Code != want.name || failure.Message == "" || !slices.Equal(details, want.details) {
		t.Errorf("%v: %+v with details %q, want %+v", err, failure, details, want)
	}
	if got := r.Header["Content-Type"]; r.StatusCode != status || len(got) != 1 || got[0] != contentType {
		t.Errorf("status %d of type %q, want %d of type %s", r.StatusCode, got, status, contentType)
	}
	return failure.Message
}

var aSecond = denied(empty, time.Second)

// callDenials are the denials of calls.
var callDenials = []struct {
	why      string
	results  []core.Result
	pushback string
	details  []string
}{
	{"a second", []core.Result{aSecond}, "1000", []string{retryIn1s, quotaAPI}},
	{"14.000001 ms", []core.Result{denied(empty, 14*time.Millisecond+1)}, "15", []string{retryIn15ms, quotaAPI}},
	{"two hours", []core.Result{denied(empty, 2*time.Hour)}, "-1", []string{retryIn2h, quotaAPI}},
	{"a minute", []core.Result{denied(empty, time.Minute)}, "60000", []string{retryIn1m, quotaAPI}},
	{"more than a minute", []core.Result{denied(empty, time.Minute+1)}, "-1", []string{retryIn1m1ms, quotaAPI}},
	{"two rules", []core.Result{denied(hourly, 1), aSecond}, "1000", []string{retryIn1s, quotaTwo}},
	{"a dry run", []core.Result{dryRun(never), aSecond}, "1000", []string{retryIn1s, quotaAPI}},
	{"a month", []core.Result{aSecond, monthly}, "-1", []string{retryIn15d, quotaPlan}},
	{"never", []core.Result{never}, "-1", []string{quotaClosed}},
	{"above the capacity", []core.Result{tooBig}, "-1", []string{quotaAPI}},
}

// testCallDenial checks the response to a denied call in each protocol.
func testCallDenial(t *testing.T, a Adapter) {
	for _, row := range callDenials {
		want := callDenial{8, "resource_exhausted", 429, row.pushback, row.details}
		problems := a.serve(t, single(Guard{Limiter: scripted(row.results...)}))
		problem := problems.do(http.MethodPost, "/")
		var body struct{ Detail string }
		_ = json.Unmarshal([]byte(problem.body), &body)
		for name, c := range callers {
			for _, http2 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, HTTP/2 %v", row.why, name, http2), func(t *testing.T) {
					app := single(Guard{Limiter: scripted(row.results...)})
					app.Routes[0].Handler = func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }
					s := serveHandler(t, a.Build(app), http2)
					got := s.send(c.request(s.URL))
					if message := got.wantCallDenial(t, c, want); message != body.Detail {
						t.Errorf("message %q, want %q as in the problem", message, body.Detail)
					}
					got.wantLimiting(t, problem.limiting()...)
					app.Guards[0].Denied = func(http.Header, core.Decision) {}
					s = serveHandler(t, a.Build(app), http2)
					wantSameAnswer(t, got, s.send(c.request(s.URL)))
				})
			}
		}
	}
	deny := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) { w.WriteHeader(http.StatusTeapot) }
	s := a.serve(t, single(Guard{Limiter: scripted(empty), Deny: deny}))
	for _, c := range callers {
		s.send(c.request(s.URL)).wantStatus(t, http.StatusTeapot)
	}
}

// failedCalls has the responses to calls that could not be decided, by HTTP status.
var failedCalls = map[int]callDenial{
	400: {3, "invalid_argument", 400, "-1", nil},
	500: {13, "internal", 500, "-1", nil},
	503: {14, "unavailable", 503, "5000", []string{retryIn5s}},
}

// testCallFailure checks the response to a call that could not be decided.
func testCallFailure(t *testing.T, a Adapter) {
	for _, row := range failures {
		want := failedCalls[row.status]
		for name, c := range callers {
			t.Run(row.why+", "+name, func(t *testing.T) {
				s := a.serve(t, single(Guard{Limiter: row.limiter()}))
				got := s.send(c.request(s.URL))
				got.wantCallDenial(t, c, want)
				if retry := got.Header.Get("Retry-After"); (retry == "5") != (row.status == 503) {
					t.Errorf("Retry-After = %q", retry)
				}
				s = a.serve(t, single(Guard{Limiter: row.limiter(), Log: func(error) {}}))
				wantSameAnswer(t, got, s.send(c.request(s.URL)))
				s = a.serve(t, single(Guard{Limiter: row.limiter(), Fail: func(w http.ResponseWriter, _ *http.Request, _ error) {
					w.WriteHeader(http.StatusTeapot)
				}}))
				s.send(c.request(s.URL)).wantStatus(t, http.StatusTeapot)
			})
		}
	}
}

// testCallNested checks that an outer limiter notices that an inner limiter has denied a call.
func testCallNested(t *testing.T, a Adapter) {
	for name, c := range callers {
		outer, _, ends := holding()
		app := single(Guard{Limiter: outer})
		app.Routes[0].Guards = []Guard{{Limiter: scripted(empty)}}
		s := a.serve(t, app)
		s.send(c.request(s.URL))
		s.Close()
		if len(ends.seen) != 1 || ends.seen[0].Status != http.StatusTooManyRequests {
			t.Errorf("%s: the outcomes are %+v, want status 429", name, ends.seen)
		}
	}
}
