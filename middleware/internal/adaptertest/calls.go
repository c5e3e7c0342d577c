package adaptertest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// Content types of calls.
const (
	grpc   = "application/grpc"
	web    = "application/grpc-web+proto"
	text   = "application/grpc-web-text"
	stream = "application/connect+json"
)

// A call is a request of a client of gRPC or Connect.
type call struct {
	contentType string
	version     string // of the Connect protocol
	get         bool   // a unary call of Connect by GET
}

func (c call) request(url string) *http.Request {
	if c.get {
		r, _ := http.NewRequest(http.MethodGet, url+"?encoding=json&message=%7B%7D&connect=v1", nil)
		return r
	}
	r, _ := http.NewRequest(http.MethodPost, url, strings.NewReader("a request"))
	r.Header.Set("Content-Type", c.contentType)
	if c.version != "" {
		r.Header.Set("Connect-Protocol-Version", c.version)
	}
	return r
}

// frame returns a frame of gRPC-Web, or an envelope of Connect.
func frame(flag byte, data string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(data)))) + data
}

func zip(data string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, data)
	_ = z.Close()
	return b.String()
}

// An answerer responds to a call.
type answerer func(w http.ResponseWriter)

// fields sets header fields, each "Name: value".
func fields(h http.Header, all ...string) {
	for _, f := range all {
		name, value, _ := strings.Cut(f, ": ")
		h[name] = append(h[name], value)
	}
}

func header(all ...string) answerer {
	return func(w http.ResponseWriter) { fields(w.Header(), all...) }
}

// trailer responds with a message and then sets fields.
func trailer(all ...string) answerer { return body(frame(0, "message")).then(all...) }

func (a answerer) then(all ...string) answerer {
	return func(w http.ResponseWriter) {
		a(w)
		fields(w.Header(), all...)
	}
}

// with responds like a, with additional header fields.
func (a answerer) with(all ...string) answerer {
	return func(w http.ResponseWriter) {
		fields(w.Header(), all...)
		a(w)
	}
}

func body(parts ...string) answerer {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Join(parts, "")) }
}

// bytewise responds with a body, one byte at a time.
func bytewise(parts ...string) answerer {
	return func(w http.ResponseWriter) {
		for _, b := range []byte(strings.Join(parts, "")) {
			_, _ = w.Write([]byte{b})
		}
		_ = http.NewResponseController(w).Flush()
	}
}

func copied(parts ...string) answerer {
	return func(w http.ResponseWriter) {
		_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader(strings.Join(parts, ""))})
	}
}

func httpStatus(status int) answerer {
	return func(w http.ResponseWriter) { http.Error(w, "no", status) }
}

const maxLast = 64 << 10

var (
	message    = frame(0, "message")
	long       = frame(0, strings.Repeat("\x82", 100_000))
	wrong      = "grpc-status: 16\r\ngrpc-message: wrong password\r\n"
	wrongLong  = wrong + "x: " + strings.Repeat("x", maxLast-len(wrong)-5) + "\r\n"
	wrongError = `{"error":{"code":"unauthenticated","message":"wrong password"},"metadata":{}}`
	encoded    = base64.StdEncoding.EncodeToString
)

var callEndings = []struct {
	why    string
	call   call
	answer answerer
	status int // of the outcome
}{
	{"a trailer", call{contentType: grpc}, trailer("Trailer:Grpc-Status: 16"), 401},
	{"a trailer that says OK", call{contentType: grpc}, trailer("Trailer:Grpc-Status: 0"), 200},
	{"a trailer in lower case", call{contentType: grpc}, trailer("Trailer:grpc-status: 7"), 403},
	{"a declared trailer", call{contentType: grpc}, trailer("Grpc-Status: 5").with("Trailer: Grpc-Message, grpc-status"), 404},
	{"a declared trailer that says OK", call{contentType: grpc}, trailer("Grpc-Status: 0").with("Trailer: Grpc-Status"), 200},
	{"a declared trailer that is missing", call{contentType: grpc}, trailer().with("Trailer: Grpc-Status"), 500},
	{"a header", call{contentType: grpc}, header("Grpc-Status: 8"), 429},
	{"a header that says OK", call{contentType: grpc}, header("Grpc-Status: 0"), 200},
	{"a header that is flushed", call{contentType: grpc}, answerer(func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }).with("Grpc-Status: 1"), 499},
	{"a header that comes too late", call{contentType: grpc}, trailer("Grpc-Status: 0"), 500},
	{"a header that a trailer corrects", call{contentType: grpc}, trailer("Trailer:Grpc-Status: 16").with("Grpc-Status: 0"), 401},
	{"a header before a body without a trailer", call{contentType: grpc}, body(message).with("Grpc-Status: 0"), 500},
	{"no status", call{contentType: grpc}, body(message), 500},
	{"nothing", call{contentType: grpc}, header(), 500},
	{"no such code", call{contentType: grpc}, header("Grpc-Status: 99"), 500},
	{"not a code", call{contentType: grpc}, header("Grpc-Status: -1"), 500},
	{"not a number", call{contentType: grpc}, header("Grpc-Status: OK"), 500},
	{"an HTTP status", call{contentType: grpc}, httpStatus(404), 404},
	{"an HTTP status beside OK", call{contentType: grpc}, httpStatus(403).with("Grpc-Status: 0"), 403},
	{"a content type in capitals", call{contentType: "Application/gRPC+Proto; charset=utf-8"}, trailer("Trailer:Grpc-Status: 16"), 401},
	{"a space behind the content type", call{contentType: "application/grpc ; x=y"}, trailer("Trailer:Grpc-Status: 16"), 401},
	{"not gRPC", call{contentType: "application/grpcx"}, trailer("Trailer:Grpc-Status: 16"), 200},
	{"not a call", call{contentType: "application/json"}, trailer("Trailer:Grpc-Status: 16"), 200},

	{"web: a header", call{contentType: web}, header("Grpc-Status: 16"), 401},
	{"web: a header that says OK", call{contentType: web}, header("Grpc-Status: 0"), 200},
	{"web: a frame", call{contentType: web}, body(message, frame(0x80, wrong)), 401},
	{"web: a frame that says OK", call{contentType: web}, body(message, long, frame(0x80, "grpc-status:0\r\n")), 200},
	{"web: a frame in capitals", call{contentType: "Application/GRPC-Web"}, body(frame(0x80, "GRPC-STATUS: 13\r\n")), 500},
	{"web: a frame byte by byte", call{contentType: web}, bytewise(frame(0, ""), message, frame(0x80, wrong)), 401},
	{"web: a frame from a reader", call{contentType: web}, copied(long, frame(0x80, wrong)), 401},
	{"web: a compressed frame", call{contentType: web}, copied(frame(1, zip("message")), frame(0x81, zip(wrong))).with("Grpc-Encoding: gzip"), 401},
	{"web: a compressed frame that says OK", call{contentType: web}, bytewise(frame(0x81, zip("grpc-status: 0\r\n"))).with("Grpc-Encoding: gzip"), 200},
	{"web: an unknown encoding", call{contentType: web}, body(frame(0x81, "grpc-status: 0\r\n")).with("Grpc-Encoding: br"), 500},
	{"web: no gzip", call{contentType: web}, body(frame(0x81, "grpc-status: 0\r\n")).with("Grpc-Encoding: gzip"), 500},
	{"web: half of a gzip", call{contentType: web}, body(frame(0x81, zip("grpc-status: 0\r\n")[:12])).with("Grpc-Encoding: gzip"), 500},
	{"web: 64 KiB", call{contentType: web}, body(frame(0x80, wrongLong)), 401},
	{"web: more than 64 KiB", call{contentType: web}, body(frame(0x80, wrongLong+"\r")), 500},
	{"web: 64 KiB, compressed", call{contentType: web}, body(frame(0x81, zip(wrongLong))).with("Grpc-Encoding: gzip"), 401},
	{"web: more than 64 KiB, compressed", call{contentType: web}, body(frame(0x81, zip("grpc-status: 0\r\n"+strings.Repeat("x", maxLast)))).with("Grpc-Encoding: gzip"), 500},
	{"web: a frame that does not end", call{contentType: web}, body(frame(0x80, wrong+"...")[:len(wrong)]), 500},
	{"web: no last frame", call{contentType: web}, body(message).with("Grpc-Status: 0"), 500},
	{"web: more behind the last frame", call{contentType: web}, body(frame(0x80, "grpc-status: 0\r\n"), message), 500},
	{"web: a length of 4 GiB", call{contentType: web}, body("\x80\xff\xff\xff\xff", wrong), 500},
	{"web: text", call{contentType: text}, body(encoded([]byte(message + frame(0x80, wrong)))).with("Content-Type: " + text), 401},
	{"web: text in parts", call{contentType: text}, bytewise(encoded([]byte(message)), encoded([]byte(frame(0x80, "grpc-status: 0\r\n")))).with("Content-Type: " + text + "+proto"), 200},
	{"web: text that is none", call{contentType: text}, body("AAAA====", encoded([]byte(frame(0x80, "grpc-status: 0\r\n")))).with("Content-Type: " + text), 500},

	{"stream: an error", call{contentType: stream, version: "1"}, body(message, frame(2, wrongError)), 401},
	{"stream: success", call{contentType: stream}, body(message, long, frame(2, "{}")), 200},
	{"stream: bytewise", call{contentType: "application/Connect+proto"}, bytewise(message, frame(2, wrongError)), 401},
	{"stream: metadata", call{contentType: stream}, copied(frame(2, `{"metadata":{"x":["y"]}}`)), 200},
	{"stream: compressed", call{contentType: stream}, body(message, frame(3, zip(wrongError))).with("Connect-Content-Encoding: gzip"), 401},
	{"stream: compressed success", call{contentType: stream}, body(frame(3, zip("{}"))).with("Connect-Content-Encoding: gzip"), 200},
	{"stream: an unknown encoding", call{contentType: stream}, body(frame(3, "{}")).with("Connect-Content-Encoding: zstd"), 500},
	{"stream: no encoding", call{contentType: stream}, body(frame(3, "{}")), 500},
	{"stream: no such code", call{contentType: stream}, body(frame(2, `{"error":{"code":"oops"}}`)), 500},
	{"stream: no code", call{contentType: stream}, body(frame(2, `{"error":{}}`)), 500},
	{"stream: ok is no error", call{contentType: stream}, body(frame(2, `{"error":{"code":"ok"}}`)), 500},
	{"stream: not JSON", call{contentType: stream}, body(frame(2, "oops")), 500},
	{"stream: an empty envelope", call{contentType: stream}, body(frame(2, "")), 500},
	{"stream: no envelope", call{contentType: stream}, body(message), 500},
	{"stream: nothing", call{contentType: stream}, header(), 500},
	{"stream: an HTTP status", call{contentType: stream}, httpStatus(415), 415},

	{"unary: an error", call{contentType: "application/json", version: "1"}, httpStatus(401), 401},
	{"unary: success", call{contentType: "application/proto", version: "1"}, body("x"), 200},
	{"GET: an error", call{get: true}, httpStatus(409), 409},
}

// testCallOutcome checks the status of calls, and that the client gets the same response as without a limiter.
func testCallOutcome(t *testing.T, a Adapter) {
	for _, row := range callEndings {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", row.why, http2), func(t *testing.T) {
				handle := func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					row.answer(w)
				}
				bare := serveHandler(t, a.Build(handling(handle)), http2)
				want := bare.send(row.call.request(bare.URL))
				o := a.outcomeOf(t, handle, http2, func(s *server) {
					got := s.send(row.call.request(s.URL))
					expect.True(t, got.StatusCode == want.StatusCode && got.body == want.body && reflect.DeepEqual(got.Trailer, want.Trailer),
						"got %d %q %v, without a limiter %d %q %v", got.StatusCode, got.body, got.Trailer, want.StatusCode, want.body, want.Trailer)
				})
				expect.True(t, o.Status == row.status && o.Err == nil && o.Bytes == int64(len(want.body)),
					"the outcome is %+v, want status %d", o, row.status)
			})
		}
	}
}

// FuzzCalls responds to calls of any content type with bodies in two parts. Nothing panics, and the client gets the same bytes.
func FuzzCalls(f *testing.F, a Adapter) {
	for i, row := range callEndings {
		w := httptest.NewRecorder()
		row.answer(w)
		h := w.Header()
		f.Add(row.call.contentType, h.Get("Content-Type"), h.Get("Grpc-Encoding")+h.Get("Connect-Content-Encoding"), w.Body.Bytes(), uint(i))
	}
	f.Fuzz(func(t *testing.T, contentType, responseType, encoding string, body []byte, cut uint) {
		at := int(cut % uint(len(body)+1))
		l, _, ends := holding()
		h := a.Build(App{Guards: []Guard{{Limiter: l}}, Routes: []Route{{Pattern: "/", Handler: func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h["Content-Type"], h["Grpc-Encoding"], h["Connect-Content-Encoding"] = []string{responseType}, []string{encoding}, []string{encoding}
			_, _ = w.Write(body[:at])
			_, _ = io.WriteString(w, string(body[at:])) //nolint:staticcheck // the writer may have a WriteString
		}}}})
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		expect.True(t, bytes.Equal(w.Body.Bytes(), body), "the client gets %q, want %q", w.Body, body)
		expect.True(t, len(ends.seen) == 1 && ends.seen[0].Err == nil && ends.seen[0].Bytes == int64(len(body)),
			"the outcomes are %+v", ends.seen)
	})
}

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
	got := r.Header["Cache-Control"]
	expect.True(t, len(got) == 1 && got[0] == "no-store", "Cache-Control = %q", got)
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
		must.True(t, len(r.body) >= 5 && r.body == frame(2, r.body[5:]), "body %q is no envelope", r.body)
		_ = json.Unmarshal([]byte(r.body[5:]), &end)
		err = json.Unmarshal(end.Error, &failure)
	default:
		failure.Message = r.Header.Get("Grpc-Message")
		if code := r.Header.Get("Grpc-Status"); code != fmt.Sprint(want.code) || r.body != "" || len(r.Trailer) > 0 {
			t.Errorf("Grpc-Status %q, body %q, trailer %v", code, r.body, r.Trailer)
		}
		expect.Equal(t, r.Header.Get("Grpc-Retry-Pushback-Ms"), want.pushback, "pushback")
		failure.Code = want.name
		bin, err := base64.RawStdEncoding.DecodeString(r.Header.Get("Grpc-Status-Details-Bin"))
		message := fmt.Sprintf("\x08%c\x12%c%s", want.code, len(failure.Message), failure.Message)
		for _, d := range want.details {
			name, value, _ := strings.Cut(d, " ")
			name = "type.googleapis.com/" + name
			one := fmt.Sprintf("\n%c%s\x12%c%s", len(name), name, len(value), value)
			message += fmt.Sprintf("\x1a%c%s", len(one), one)
		}
		expect.True(t, string(bin) == message && err == nil, "details %q, want %q", bin, message)
		details = want.details
	}
	for _, d := range failure.Details {
		value, err := base64.RawStdEncoding.DecodeString(d.Value)
		expect.NoError(t, err, "the value")
		details = append(details, d.Type+" "+string(value))
	}
	expect.True(t, err == nil && failure.Code == want.name && failure.Message != "" && slices.Equal(details, want.details),
		"%v: %+v with details %q, want %+v", err, failure, details, want)
	if got := r.Header["Content-Type"]; r.StatusCode != status || len(got) != 1 || got[0] != contentType {
		t.Errorf("status %d of type %q, want %d of type %s", r.StatusCode, got, status, contentType)
	}
	return failure.Message
}

var aSecond = denied(empty, time.Second)

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
					app := handling(mustNotServe(t), Guard{Limiter: scripted(row.results...)})
					s := serveHandler(t, a.Build(app), http2)
					got := s.send(c.request(s.URL))
					expect.Equal(t, got.wantCallDenial(t, c, want), body.Detail, "message as in the problem")
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

func testCallFailure(t *testing.T, a Adapter) {
	for _, row := range failures {
		want := failedCalls[row.status]
		for name, c := range callers {
			t.Run(row.why+", "+name, func(t *testing.T) {
				s := a.serve(t, single(Guard{Limiter: row.limiter()}))
				got := s.send(c.request(s.URL))
				got.wantCallDenial(t, c, want)
				retry := got.Header.Get("Retry-After")
				expect.Equal(t, retry == "5", row.status == 503, "Retry-After = %q", retry)
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
		expect.True(t, len(ends.seen) == 1 && ends.seen[0].Status == http.StatusTooManyRequests,
			"%s: the outcomes are %+v, want status 429", name, ends.seen)
	}
}
