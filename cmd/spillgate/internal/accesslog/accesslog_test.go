package accesslog

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// logs are lines of each format, and the entry of the last line.
var logs = []struct {
	format, lines string
	want          Entry
}{
	{"combined", `203.0.113.7 - ann [10/Oct/2025:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "http://example.com/" "Mozilla \"x\""`,
		Entry{At: at("2025-10-10T20:55:36Z"), Seconds: true, Client: "203.0.113.7", User: "ann", Method: "GET", Target: "/a?b=c", Status: 200, Duration: -1,
			Header: http.Header{"Referer": {"http://example.com/"}, "User-Agent": {`Mozilla "x"`}}}},
	// Apache, with the virtual host in front
	{"combined", `www.example.com:443 2001:db8::1 - - [10/Oct/2025:13:55:36 +0000] "POST /login HTTP/2.0" 401 - "-" "-"`,
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Host: "www.example.com:443", Client: "2001:db8::1", Method: "POST", Target: "/login", Status: 401, Duration: -1}},
	// fields that follow the combined format are not read
	{"combined", `host.example - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.0" 200 5 "-" "curl" "203.0.113.9" 0.123`,
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "host.example", Method: "GET", Target: "/", Status: 200, Duration: -1, Header: http.Header{"User-Agent": {"curl"}}}},
	{"common", `127.0.0.1 - first \xC3\xA4 [10/Oct/2025:13:55:36 +0000] "GET /a b\x5C\xc3\xb6\x HTTP/1.0" 304 0`, // nginx and Apache escape
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "127.0.0.1", User: "first ä", Method: "GET", Target: `/a b\ö\x`, Status: 304, Duration: -1}},
	{"traefik", `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET /x HTTP/1.1" 200 9 "-" "curl/8" 12 "web@docker" "http://10.0.0.2:80" 34ms`,
		Entry{At: at("2025-10-10T13:55:36Z"), Started: true, Seconds: true, Client: "192.0.2.1", Method: "GET", Target: "/x", Status: 200, Duration: 34 * time.Millisecond, Header: http.Header{"User-Agent": {"curl/8"}}}},
	{"caddy", `{"level":"info","ts":1760104536.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","client_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a?b","headers":{"X-Api-Key":["k1"],"Authorization":["REDACTED"]}},"user_id":"","duration":9.29675e-05,"size":10900,"status":200}`,
		Entry{At: at("2025-10-10T13:55:36.5Z"), Client: "203.0.113.7", Method: "GET", Target: "/a?b", Host: "example.com", Status: 200, Duration: 92967, Header: http.Header{"X-Api-Key": {"k1"}}}},
	{"traefik-json", `{"ClientAddr":"192.0.2.1:5","ClientHost":"192.0.2.1","ClientUsername":"-","DownstreamStatus":404,"Duration":1500000,"RequestHost":"h","RequestMethod":"GET","RequestPath":"/x","StartUTC":"2025-10-10T13:55:36.25Z","time":"2025-10-10T13:55:37Z"}`,
		Entry{At: at("2025-10-10T13:55:36.25Z"), Started: true, Client: "192.0.2.1", Method: "GET", Target: "/x", Host: "h", Status: 404, Duration: 1500 * time.Microsecond}},
	// before 2.7
	{"caddy", `{"level":"info","ts":1760104536.5,"msg":"handled request","request":{"remote_ip":"203.0.113.7","remote_port":"9","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a","headers":{}},"user_id":"ann","duration":0.5,"status":401}`,
		Entry{At: at("2025-10-10T13:55:36.5Z"), Client: "203.0.113.7", User: "ann", Method: "GET", Target: "/a", Host: "example.com", Status: 401, Duration: 500 * time.Millisecond}},
	// before 2.5, with times and durations as text
	{"caddy", `{"level":"info","ts":"2025-10-10T13:55:36.5Z","request":{"remote_addr":"[2001:db8::1]:9","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a"},"duration":"1.5ms","status":200}`,
		Entry{At: at("2025-10-10T13:55:36.5Z"), Client: "2001:db8::1", Method: "GET", Target: "/a", Host: "example.com", Status: 200, Duration: 1500 * time.Microsecond}},
	{"traefik-json", `{"ClientAddr":"192.0.2.1:5","DownstreamStatus":0,"Duration":8000000000,"RequestMethod":"GET","RequestPath":"/x","time":"2025-10-10T13:55:37Z","msec":500}`,
		Entry{At: at("2025-10-10T13:55:37Z"), Seconds: true, Client: "192.0.2.1", Method: "GET", Target: "/x", Duration: 8 * time.Second}},
	{"envoy", `{"authority":"example.com","downstream_remote_address":"203.0.113.7:55","duration":12,"method":"GET","path":"/x","protocol":"HTTP/2","response_code":503,"response_flags":"UF","start_time":"2025-10-10T13:55:36.5Z","upstream_service_time":null,"x_forwarded_for":"192.0.2.1"}`,
		Entry{At: at("2025-10-10T13:55:36.5Z"), Started: true, Client: "203.0.113.7", Method: "GET", Target: "/x", Host: "example.com", Status: 503, Duration: 12 * time.Millisecond}},
	// some load balancers have IPv6 addresses without brackets
	{"alb", `h2 2025-10-10T13:55:36.5Z app/lb/50dc 2001:db8::1:443 10.0.0.1:80 -1 -1 -1 502 - 0 57 "GET https://www.example.com:443/a HTTP/2.0" "-" - - arn:aws "Root=1"`,
		Entry{At: at("2025-10-10T13:55:36.5Z"), Client: "2001:db8::1", Method: "GET", Target: "https://www.example.com:443/a", Status: 502, Duration: -1}},
	{"alb", `https 2025-10-10T13:55:36.186641Z app/lb/50dc 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a HTTP/1.1" "curl/7.46.0" ECDHE TLSv1.2 arn:aws "Root=1" "www.example.com" "arn" 1 2025-10-10T13:55:36.000000Z "forward" "-" "-"`,
		Entry{At: at("2025-10-10T13:55:36.186641Z"), Client: "192.168.131.39", Method: "GET", Target: "https://www.example.com:443/a", Status: 200, Duration: 171 * time.Millisecond, Header: http.Header{"User-Agent": {"curl/7.46.0"}}}},
	{"cloudfront", "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken\n" +
		"2025-10-10\t13:55:36\tFRA2\t300\t203.0.113.7\tGET\td1.cloudfront.net\t/a\t200\t-\tMozilla/5.0%20(X)\tb=c\t-\tHit\tid\twww.example.com\thttps\t23\t0.001",
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "203.0.113.7", Method: "GET", Target: "/a?b=c", Host: "www.example.com", Status: 200, Duration: time.Millisecond, Header: http.Header{"User-Agent": {"Mozilla/5.0 (X)"}}}},
	{"cloudfront", `{"date":"2025-10-10","time":"13:55:36","c-ip":"2001:db8::1","cs-method":"GET","cs(Host)":"d1.cloudfront.net","cs-uri-stem":"/a","cs-uri-query":"-","sc-status":"000","cs(User-Agent)":"Mozilla/5.0%20(X)","cs(Referer)":"-","x-host-header":"www.example.com","time-taken":"0.25"}`,
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "2001:db8::1", Method: "GET", Target: "/a", Host: "www.example.com", Duration: 250 * time.Millisecond, Header: http.Header{"User-Agent": {"Mozilla/5.0 (X)"}}}},
	{"cloudfront", `{"timestamp":"1760104536","c-ip":"203.0.113.7","cs-method":"GET","cs-uri-stem":"/a","sc-status":200}`,
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "203.0.113.7", Method: "GET", Target: "/a", Status: 200, Duration: -1}},
	{"cloudfront", `{"timestamp(ms)":"1760104536250","c-ip":"203.0.113.7","cs-method":"GET","cs-uri-stem":"/a","sc-status":200}`,
		Entry{At: at("2025-10-10T13:55:36.25Z"), Client: "203.0.113.7", Method: "GET", Target: "/a", Status: 200, Duration: -1}},
	// nginx with $time_iso8601 and $msec
	{"json", `{"time":"2025-10-10T15:55:36+02:00","msec":1760104536.125,"remote_addr":"203.0.113.7","request":"GET /x HTTP/1.1","status":200}`,
		Entry{At: at("2025-10-10T13:55:36.125Z"), Client: "203.0.113.7", Method: "GET", Target: "/x", Status: 200, Duration: -1}},
	{"json", `{"@timestamp":"2025-10-10T13:55:36.5+02:00","remote_addr":"203.0.113.7:99","path":"/y","request":"PUT /x HTTP/1.1","status":"201 Created","request_time":"0.25","remote_user":"bob"}`,
		Entry{At: at("2025-10-10T11:55:36.5Z"), Client: "203.0.113.7", User: "bob", Method: "PUT", Target: "/x", Status: 201, Duration: 250 * time.Millisecond}},
	{"csv", "start,ip,method,path,status,latency_ms\n1760104536500,203.0.113.7,GET,\"/a,b\",200,12.5",
		Entry{At: at("2025-10-10T13:55:36.5Z"), Started: true, Client: "203.0.113.7", Method: "GET", Target: "/a,b", Status: 200, Duration: 12500 * time.Microsecond}},
	// Python's isoformat, without a zone
	{"csv", "time,ip,method,path\n2025-10-10T13:55:36.5,203.0.113.7,GET,/",
		Entry{At: at("2025-10-10T13:55:36.5Z"), Client: "203.0.113.7", Method: "GET", Target: "/", Duration: -1}},
	// PostgreSQL and Python's str, with a zone
	{"csv", "time,ip,method,path\n2025-10-10 15:55:36.5+02:00,203.0.113.7,GET,/",
		Entry{At: at("2025-10-10T13:55:36.5Z"), Client: "203.0.113.7", Method: "GET", Target: "/", Duration: -1}},
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

func lastOf(t *testing.T, r io.Reader, o Options) (*Reader, Entry) {
	t.Helper()
	reader := must.Get(NewReader("log", r, o))(t)
	var e, last Entry
	for {
		err := reader.Next(&e)
		if errors.Is(err, io.EOF) {
			return reader, last
		}
		must.Do(t, err)
		last = e
	}
}

// wrappings are the forms that log collectors give to lines of these formats.
var wrappings = []struct{ formats, before, after string }{
	{"", "", ""}, {"", "", "\n"}, {"", "", "\r\n"}, {"", "\n\ufeff", "\n"},
	{"combined common traefik caddy traefik-json envoy json", "2025-10-10T13:55:36.123456789Z stdout F ", "\n"},
	{"combined common traefik caddy traefik-json envoy json", "[pod/web-1/nginx] ", "\n"},
	{"combined common traefik caddy traefik-json envoy json", "web-1  | ", "\n"},
	{"combined common traefik caddy traefik-json envoy json", "Oct 10 13:55:36 web1 nginx[12]: ", "\n"},
	{"combined common traefik caddy traefik-json envoy json", "<190>Oct 10 13:55:36 web1 nginx: ", "\n"},
	{"combined common traefik caddy traefik-json envoy json", "<190>1 2025-10-10T13:55:36.123456+00:00 10.0.0.5 nginx 12 - - ", "\n"},
	{"combined common traefik caddy traefik-json envoy json", `<190>1 2025-10-10T13:55:36Z 10.0.0.5 - - - [a@1 ip="10.0.0.6"] `, "\n"},
	{"combined common traefik caddy traefik-json envoy json", "2025-10-10T13:55:36.123456+00:00 web1 nginx: ", "\n"},
}

func TestFormatsAreDetectedAndRead(t *testing.T) {
	for _, tt := range logs {
		for _, w := range wrappings {
			if !strings.Contains(w.formats, tt.format) && w.formats != "" {
				continue
			}
			text := w.before + strings.ReplaceAll(tt.lines, "\n", strings.TrimSuffix(w.after, "\n")+"\n") + w.after
			r, got := lastOf(t, strings.NewReader(text), Options{})
			if len(got.Header) == 0 {
				got.Header = nil
			}
			if w.formats != "" && tt.want.Host == "" { // a name in front of the client may be a virtual host
				got.Host = ""
			}
			expect.True(t, reflect.DeepEqual(got, tt.want) && r.Format == tt.format && r.Entries == 1 && r.BadSum == 0 &&
				r.First.Timed == (tt.want.Duration >= 0) && r.First.Statuses == (tt.want.Status > 0),
				"%q %s: got %s, %d entries, bad %v\n%+v\nwant\n%+v", w.before, tt.format, r.Format, r.Entries, r.Bad, got, tt.want)
		}
	}
	for _, kind := range []string{"http", "grpcs", "ws", "wss"} {
		line := kind + ` 2025-10-10T13:55:36.5Z app/lb/50dc 192.0.2.1:44 10.0.0.1:80 -1 -1 -1 502 - 0 57 "GET https://a/ HTTP/2.0" "-"`
		r, _ := lastOf(t, strings.NewReader(line), Options{})
		expect.True(t, r.Format == "alb" && r.Entries == 1, "%s: got format %q", kind, r.Format)
	}
}

// Docker, Fluent Bit, Logstash, Filebeat and journald write lines into JSON.
func TestLinesInJSON(t *testing.T) {
	for _, tt := range logs {
		for _, field := range []string{"log", "message", "MESSAGE"} {
			if !strings.Contains(wrappings[4].formats, tt.format) {
				continue
			}
			line := must.Get(json.Marshal(tt.lines + "\n"))(t)
			text := "\ufeff" + `{"time":"2025-10-10T13:55:36.9Z", "` + field + `": ` + string(line) + `, "stream":"stdout"}` + "\nnonsense\n{}\n" + `{"log":"\n","message":"\n","MESSAGE":"\n"}`
			for _, format := range []string{"", tt.format} {
				r, got := lastOf(t, strings.NewReader(text), Options{Format: format})
				expect.True(t, r.Format == tt.format && r.Entries == 1 && r.BadSum == 2 && r.Lines == 4 &&
					got.Client == tt.want.Client && got.Target == tt.want.Target && got.At.Equal(tt.want.At),
					"%s in %s: got %s, %d of %d lines, bad %v, %+v", tt.format, field, r.Format, r.Entries, r.Lines, r.Bad, got)
			}
		}
	}
}

// Each text is in front of the time of a line, or in a field of its own. A line without a client is bad.
func TestClients(t *testing.T) {
	for _, tt := range []struct{ columns, client, user string }{
		{"203.0.113.7 - -", "203.0.113.7", ""},
		{"203.0.113.7:40000 - ann", "203.0.113.7", "ann"},
		{"2001:db8::1 - -", "2001:db8::1", ""},
		{"[2001:db8::1] - -", "2001:db8::1", ""},
		{"[2001:db8::1]:443 - -", "2001:db8::1", ""},
		{"[fe80::1%eth0]:443 - -", "fe80::1%eth0", ""},
		{"fe80::1%eth0, 10.0.0.1 - -", "fe80::1%eth0", ""},
		{"2001:db8::1:57832 - -", "2001:db8::1", ""}, // too long for a group
		{"::ffff:203.0.113.7 - -", "::ffff:203.0.113.7", ""},
		{"203.0.113.7, 10.0.0.1 - -", "203.0.113.7", ""},
		{"203.0.113.7, 198.51.100.1, 10.0.0.1 - ann lee", "203.0.113.7", "ann lee"},
		{"203.0.113.7,10.0.0.1 - -", "203.0.113.7", ""},
		{`"203.0.113.7, 10.0.0.1" - -`, "203.0.113.7", ""},
		{"-, 10.0.0.1 - -", "10.0.0.1", ""}, // $http_x_forwarded_for, $remote_addr
		{"TIME stdout F 203.0.113.7, 10.0.0.1 - -", "203.0.113.7", ""},
		{"web-1 nginx 203.0.113.7:40000 - -", "203.0.113.7", ""},
		{"10.0.0.1 (203.0.113.7) - -", "203.0.113.7", ""},
		{"203.0.113.7 - [203.0.113.7] - ann", "203.0.113.7", "ann"},
		{"203.0.113.50:443 203.0.113.7 - -", "203.0.113.7", ""},
		{"203.0.113.7 www.example.com - ann", "203.0.113.7", "ann"},
		{"203.0.113.7 ident ann", "203.0.113.7", "ann"},
		{"203.0.113.7 - ann - lee", "203.0.113.7", "ann - lee"},
		{"203.0.113.7 - - -", "203.0.113.7", "- -"},
		{"host.example - ann", "host.example", "ann"},
		{"Oct 10 13:55:36 web1 nginx: host.example - ann", "host.example", "ann"},
		{"<190>1 TIME web1 nginx - - - host.example - -", "host.example", ""},
		{"www.example.com host.example - -", "host.example", ""},
		{"", "", ""},
		{" ", "", ""},
		{"203.0.113.7", "", ""},
		{"203.0.113.7 -", "", ""},
		{"<190>1 - -", "", ""},
		{"203.0.113.7 'x' y", "", ""},
		{"web1 nginx 203.0.113.7 -", "", ""},
		{"- - -", "", ""},
		{"unknown - -", "", ""},
		{"unix: - -", "", ""},
		{`203.0.113.7 - x\x20198.51.100.1\x20-\x20-`, "203.0.113.7", "x 198.51.100.1 - -"},
		{"@ - -", "", ""},
		{"TIME stdout F - - -", "", ""},
		{"web-1 | - - -", "", ""},
		{"nginx - - -", "", ""},
		{"10.0.0.5 nginx - - -", "", ""},
		{"203.0.113.256 - -", "", ""},
		{"203.0.113.7:99999 - -", "", ""},
		{"unknown, 10.0.0.1 - -", "", ""},
		{"' OR 1=1, 10.0.0.1 - -", "", ""},
		{"203.0.113.7 - x 198.51.100.1 - -", "203.0.113.7", "x 198.51.100.1 - -"}, // the user wants to be another client
		{"203.0.113.7 - - 198.51.100.1 - -", "203.0.113.7", "- 198.51.100.1 - -"},
		{`203.0.113.7 - x\x4`, "203.0.113.7", `x\x4`},
		{`203.0.113.7 - x\`, "203.0.113.7", `x\`},
		{`203.0.113.7 - x\t\n\r\b\v\a`, "203.0.113.7", "x\t\n\r\b\v\\a"}, // Apache escapes
		{`203.0.113.7 - ""`, "203.0.113.7", ""},
		{"TIME 203.0.113.7 - 'x' - -", "203.0.113.7", "'x' - -"},
		{"203.0.113.7 -  x", "203.0.113.7", "x"},
		{"203.0.113.7 - - - - host.example - -", "203.0.113.7", "- - - host.example - -"},
		{"TIME stdout F 203.0.113.7 - - 198.51.100.1 - -", "", ""},
		{"host.example - x other.example - -", "", ""},
		{"host.example - - other.example - -", "", ""},
		{"host.example - x 198.51.100.1 - -", "", ""},
		{"<190>1 TIME 10.0.0.5 - - - - 203.0.113.7 - -", "203.0.113.7", ""},
		{"12345 - -", "", ""},
		{"2025-10-10 - -", "", ""},
		{strings.Repeat("a", 253) + " - -", strings.Repeat("a", 253), ""},
		{strings.Repeat("a", 254) + " - -", "", ""},
	} {
		line := tt.columns + ` [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 5`
		r, e := lastOf(t, strings.NewReader(line), Options{Format: "common"})
		expect.True(t, e.Client == tt.client && e.User == tt.user && r.BadSum == 1-min(1, len(tt.client)),
			"%s: got client %q, user %q, bad %v", tt.columns, e.Client, e.User, r.Bad)
		if field, ok := strings.CutSuffix(tt.columns, " - -"); ok && !strings.Contains(strings.ReplaceAll(field, ", ", ""), " ") {
			object, _ := json.Marshal(map[string]any{"client": field, "time": 1760104536, "method": "GET", "path": "/"})
			if r, e := lastOf(t, bytes.NewReader(object), Options{Format: "json"}); e.Client != tt.client || r.BadSum != 1-min(1, len(tt.client)) {
				t.Errorf("%s: got client %q, bad %v", object, e.Client, r.Bad)
			}
		}
	}
	line := `{"client":["203.0.113.7","10.0.0.1"],"time":1760104536,"method":"GET","path":"/"}`
	_, e := lastOf(t, strings.NewReader(line), Options{})
	expect.Equal(t, e.Client, "203.0.113.7", "an array")
}

func TestTimesSinceTheEpoch(t *testing.T) {
	for text, want := range map[string]string{
		"1760104536": "2025-10-10T13:55:36Z", "1760104536.5": "2025-10-10T13:55:36.5Z", "1.7601045365e9": "2025-10-10T13:55:36.5Z", "1760104536.123456789": "2025-10-10T13:55:36.123456789Z",
		"1760104536.1234567890123": "2025-10-10T13:55:36.123456789Z",
		"1760104536500":            "2025-10-10T13:55:36.5Z", "1760104536123.456": "2025-10-10T13:55:36.123456Z", "1.760104536123e+12": "2025-10-10T13:55:36.123Z",
		"1760104536123456": "2025-10-10T13:55:36.123456Z", "1760104536123456.75": "2025-10-10T13:55:36.12345675Z", "1760104536123456789": "2025-10-10T13:55:36.123456789Z",
		"631152000": "1990-01-01T00:00:00Z", "631152000000": "1990-01-01T00:00:00Z", "631152000000000": "1990-01-01T00:00:00Z", "631152000000000000": "1990-01-01T00:00:00Z",
		"7258118399": "2199-12-31T23:59:59Z", "7258118399000": "2199-12-31T23:59:59Z", "7258118399000000": "2199-12-31T23:59:59Z", "7258118399000000000": "2199-12-31T23:59:59Z",
		"0": "", "-1760104536": "", "20251010135536": "", "17601045361234567890123": "", "1760104536.": "2025-10-10T13:55:36Z", "1760104536.5.5": "", "NaN": "", "1e999": "",
	} {
		for _, line := range []string{`{"ts":` + text + `,"ip":"::1","method":"GET","path":"/"}`, `{"ts":"` + text + `","ip":"::1","method":"GET","path":"/"}`, "ts,ip,method,path\n" + text + ",::1,GET,/"} {
			format := "json"
			if line[0] != '{' {
				format = "csv"
			} else if !json.Valid([]byte(line)) {
				continue
			}
			r, e := lastOf(t, strings.NewReader(line), Options{Format: format})
			if want == "" && r.BadSum != 1 || want != "" && (!e.At.Equal(at(want)) || e.Seconds != (!strings.Contains(text, ".5") && !strings.Contains(text, ".1") && len(text) <= 11)) {
				t.Errorf("%s: got %v, whole seconds %v, bad %v; want %q", line, e.At, e.Seconds, r.Bad, want)
			}
		}
	}
}

func TestDurations(t *testing.T) {
	for _, tt := range []struct {
		later string // the fields of a line that comes later
		first string
		flags map[string]string
		want  time.Duration
	}{
		{``, `"duration_ns":8000000000`, nil, 8 * time.Second},
		{``, `"duration_ns":"90000000000000"`, nil, 25 * time.Hour},
		{``, `"duration_us":5123.5`, nil, 5123500},
		{``, `"latency_us":3000000000`, nil, 50 * time.Minute},
		{``, `"elapsed_ms":3600000`, nil, time.Hour},
		{``, `"duration_s":3`, nil, 3 * time.Second},
		{``, `"request_time":3`, nil, 3 * time.Second},
		{``, `"request_time":"1.001"`, nil, 1001 * time.Millisecond},
		{``, `"request_time":"0s"`, nil, 0},
		{``, `"duration_ns":0.0`, nil, 0},
		{``, `"duration":0.25`, nil, 250 * time.Millisecond},
		{``, `"duration":0.012345678901234`, nil, 12345678},
		{``, `"duration":12`, nil, -1}, // seconds, milliseconds or nanoseconds
		{``, `"latency":"12"`, nil, -1},
		{``, `"duration":0`, nil, -1}, // the others may be ignored
		{`"duration":0.1`, `"duration":0`, nil, 0},
		{`"duration":0.1`, `"duration":8`, nil, 8 * time.Second},
		{``, `"duration":"1m2.5s"`, nil, 62500 * time.Millisecond},
		{``, `"duration":"12 ms"`, nil, 12 * time.Millisecond},
		{``, `"latency":"15.2µs"`, nil, 15200},
		{``, `"latency":34567,"latency_human":"34.567µs"`, nil, 34567}, // echo
		{``, `"duration":-1`, nil, -1},
		{``, `"duration":"-"`, nil, -1},
		{``, `"duration_ns":1e30`, nil, -1},
		{``, `"took":12`, map[string]string{"duration_ms": "took"}, 12 * time.Millisecond},
		{``, `"took":12`, map[string]string{"duration_s": "took"}, 12 * time.Second},
		{``, `"tookMs":12`, map[string]string{"duration": "tookMs"}, 12 * time.Millisecond},
		{``, `"a":{"took_us":12}`, map[string]string{"duration": "a.took_us"}, 12 * time.Microsecond},
	} {
		line := `{"time":1760104536,"ip":"::1","method":"GET","path":"/",`
		text := line + tt.first + "}"
		if tt.later != "" {
			text += "\n" + line + tt.later + "}"
		}
		r, err := NewReader("log", strings.NewReader(text), Options{Fields: tt.flags})
		var e Entry
		if err == nil {
			err = r.Next(&e)
		}
		expect.True(t, err == nil && e.Duration == tt.want && r.First.Timed == (tt.want >= 0),
			"%s: got %v, %v, timed %v, want %v", text, e.Duration, err, r.First.Timed, tt.want)
	}
	for _, tt := range logs {
		if tt.format != "caddy" && tt.format != "traefik-json" && tt.format != "envoy" {
			continue
		}
		for property, field := range map[string]string{"duration_ms": "took", "duration": "tookMs"} {
			fields := map[string]string{property: field, "header:X-A": "took"}
			r, e := lastOf(t, strings.NewReader(strings.Replace(tt.lines, "{", `{"took":7,"tookMs":7,`, 1)), Options{Fields: fields})
			if r.Format != tt.format || e.Duration != 7*time.Millisecond || e.Started != tt.want.Started || e.Header.Get("X-A") != "7" {
				t.Errorf("%s with %v: got %s, %+v", tt.format, fields, r.Format, e)
			}
		}
	}
	fields, line := map[string]string{"time": "ended"}, `{"ended":1760104537,"start_time":1760104536,"downstream_remote_address":"::1","method":"GET","path":"/","duration":1000}`
	r, e := lastOf(t, strings.NewReader(line), Options{Fields: fields})
	expect.True(t, r.Format == "envoy" && !e.Started && e.At.Unix() == 1760104537, "%v: got %s, %+v", fields, r.Format, e)
}

func TestNoValueRemainsFromThePreviousLine(t *testing.T) {
	for _, tt := range logs {
		p, err := NewParser(Options{Format: tt.format})
		must.Do(t, err)
		e := Entry{Client: "x", User: "x", Host: "x", Status: 7, Duration: 7, Started: true, Header: http.Header{}}
		for _, name := range []string{"Referer", "User-Agent"} {
			if p.Knows(name) {
				e.Header[name] = []string{"x"}
			}
		}
		for line := range strings.SplitSeq(tt.lines, "\n") {
			err = p.Parse(line, &e)
		}
		if len(e.Header) == 0 {
			e.Header = nil
		}
		expect.True(t, err == nil && reflect.DeepEqual(e, tt.want), "%s: got %v\n%+v\nwant\n%+v", tt.format, err, e, tt.want)
	}
}

// Logs are concatenated, also compressed or with their byte order marks.
func TestConcatenatedLogs(t *testing.T) {
	var gz, zs bytes.Buffer
	for range 2 {
		w := gzip.NewWriter(&gz)
		_, _ = io.WriteString(w, logs[0].lines+"\n")
		_ = w.Close()
		z, _ := zstd.NewWriter(&zs)
		_, _ = io.WriteString(z, logs[0].lines+"\n")
		_ = z.Close()
	}
	marked := strings.NewReader(strings.Repeat("\ufeff"+logs[0].lines+"\n", 2))
	for _, r := range []io.Reader{&gz, &zs, marked} {
		r, e := lastOf(t, r, Options{})
		expect.True(t, r.Entries == 2 && r.BadSum == 0 && e.Client == "203.0.113.7", "got %d entries, bad %v, %+v", r.Entries, r.Bad, e)
	}
	var caddy []string // of several versions of the program
	for _, tt := range logs {
		if tt.format == "caddy" {
			caddy = append(caddy, tt.lines)
		}
	}
	r, _ := lastOf(t, strings.NewReader(strings.Join(caddy, "\n")), Options{})
	expect.True(t, r.Entries == len(caddy) && r.BadSum == 0, "got %d of %d entries, bad %v", r.Entries, len(caddy), r.Bad)
}

// TestLogsWithHoles reads logs that logrotate has truncated while their program writes them without O_APPEND: with the option
// copytruncate, such a log begins with a hole as long as the log was before.
func TestLogsWithHoles(t *testing.T) {
	for _, n := range []int{2, 1000, 2 * maxLine} {
		log := strings.Repeat("\x00", n) + logs[0].lines + "\n"
		r, e := lastOf(t, strings.NewReader(log), Options{})
		expect.True(t, r.Entries == 1 && r.First.Entries == 1 && r.BadSum == 0 && e.Client == "203.0.113.7", "%d bytes: got %d entries, bad %v, %+v", n, r.Entries, r.Bad, e)
		r, _ = lastOf(t, strings.NewReader(log[:n]), Options{})
		expect.True(t, r.Entries+r.BadSum == 0 && r.Format == "", "%d bytes and no line: got %+v", n, r)
		if n < maxLine {
			r, e = lastOf(t, strings.NewReader(log+log), Options{})
			expect.True(t, r.Entries == 2 && r.BadSum == 0 && e.Client == "203.0.113.7", "%d bytes, twice: got %d entries, bad %v, %+v", n, r.Entries, r.Bad, e)
		}
	}
}

func TestBadLinesAreCountedAndReported(t *testing.T) {
	good := logs[0].lines
	text := good + "\nnonsense\n\n" + `1.2.3.4 - - [10/Oct/2025:13:55:36 +0000] "\x16\x03\x01" 400 0 "-" "-"` + "\n" + strings.Repeat("x", maxLine+300_000) + "\n" + good + "\n" +
		`1.2.3.4 - - [10/Foo/2025:13:55:36 +0000] "GET / HTTP/1.1" 400 0 "-" "-"`
	r, _ := lastOf(t, strings.NewReader(text), Options{})
	expect.True(t, r.Entries == 2 && r.Others == 1 && r.BadSum == 3 && r.Lines == 7 && r.Bad[0].Line == 2 && r.Bad[1].Line == 5 &&
		r.Bad[2].Line == 7 && strings.Contains(r.Bad[1].Why, "longer than") && strings.Contains(r.Bad[2].Why, "10/Foo/2025"),
		"got %d entries, %d others, %d bad of %d lines: %v", r.Entries, r.Others, r.BadSum, r.Lines, r.Bad)
	text = ""
	for _, end := range []string{` 12ms`, `" 200 5 "- 12ms`, `" 200 5 "-"`, `" 200 5 "-" x" 12ms`, `" 200 5 "-" "x 12ms`, `" 200 5 "-" "x" 12`} {
		text += `1.2.3.4 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1` + end + "\n"
	}
	r, _ = lastOf(t, strings.NewReader(text), Options{Format: "traefik"})
	expect.Equal(t, r.BadSum, 6, "lines that lack a quote, the agent or a unit: bad %v", r.Bad)
	long := strings.Repeat("x", 3*maxLine) + "\n"
	r, e := lastOf(t, strings.NewReader(strings.Repeat("\n", block)+long+"\n"+long+strings.Replace(good, "GET /", "GET /"+long[:block], 1)), Options{})
	expect.True(t, r.Format == "combined" && r.Entries == 1 && r.BadSum == 2 && r.Lines == block+4 && r.Bad[1].Line == block+3 && len(e.Target) > block,
		"long lines first: got %d entries of %q, %d bad of %d lines: %v", r.Entries, r.Format, r.BadSum, r.Lines, r.Bad)
	for _, lines := range []string{
		`http 2025-10-10T13:55:36.5Z app/lb/50dc 192.0.2.1:44 - -1 -1 -1 400 - 0 57 "- http://lb.example:80- -" "-" - -`,
		`{"time":1760104536,"ip":"::1","method":"GET","path":"/"}` + "\n" + `{"time":1760104536,"ip":"::1","method":"","path":""}`,
		`{"time":1760104536,"ip":"::1","request":"GET / HTTP/1.1"}` + "\n" + `{"time":1760104536,"ip":"::1","request":""}`,
		"time,ip,method,path\n1760104536,::1,GET,/\n1760104536,::1,-,-",
	} {
		r, _ = lastOf(t, strings.NewReader(lines), Options{})
		expect.True(t, r.Others == 1 && r.BadSum == 0, "%s: got %d others, bad %v", lines, r.Others, r.Bad)
	}
	r, _ = lastOf(t, strings.NewReader(long), Options{})
	expect.True(t, r.Format == "" && r.BadSum == 1 && r.Lines == 1, "a long line alone: got %q, %d bad of %d lines", r.Format, r.BadSum, r.Lines)
}

func TestFieldsByName(t *testing.T) {
	fields := map[string]string{"client": "http.peer", "time": "when", "method": "m", "path": "p", "header:x-api-key": "key"}
	line := `{"when":"2025/10/10 13:55:36","http":{"peer":"::1"},"m":"GET","p":"/","key":"k","status":200.0}`
	r, e := lastOf(t, strings.NewReader(line), Options{Fields: fields})
	expect.True(t, r.Format == "json" && e.Client == "::1" && e.Header.Get("X-Api-Key") == "k" && e.Seconds && e.At.Equal(at("2025-10-10T13:55:36Z")) && e.Status == 200 && r.Knows("X-Api-Key") && !r.Knows("X-Other"),
		"got %s, %+v", r.Format, e)
}

func TestNoFormatFits(t *testing.T) {
	const json = `{"ts":1760104536,"method":"GET","path":"/"`
	for text, want := range map[string]string{
		"hello\nworld\n": "csv", "{}\n": "csv", "a,b,c\n": "csv", strings.Repeat("x", block+1): "csv",
		json + "}\n":                     "csv; read as json: there is no client; say --field client=NAME",
		json + `,"client":"a b"}` + "\n": `csv; read as json: the client is "a b", want an address or a host name`,
		`{"client":"::1","ts":"noon","method":"GET","path":"/"}`:                                      `csv; read as json: "noon" is not a time such as 2000-10-10T13:55:36Z`,
		json + `,"client":"::1","status":"x"}`:                                                        `csv; read as json: "x" is not a status`,
		`{"client":"::1","ts":1760104536}`:                                                            "csv; read as json: there is no method or no path; say --field",
		`{"client":"::1","ts":1760104536,"message":"hello"}`:                                          "csv; read as json: there is no method or no path",
		`{"client":"::1"}`:                                                                            "csv; read as json: there is no time; say --field time=NAME; there is no method",
		`{"ts":1760104536,"request":{"method":"GET","uri":"/"}}`:                                      "csv; read as caddy: there is no client",
		"ts,method,path\n1760104536,GET,/\n":                                                          "csv; read as csv: there is no client",
		`{"c-ip":"::1","date":"2025-10-10","time":"13:55:36","cs-method":"GET"}`:                      "csv; read as cloudfront: cs-method or cs-uri-stem is missing",
		`? - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`:                           `csv; read as combined: the client is "?", want an address`,
		`F - - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 5`:                                 "csv; read as common: want HOST IDENT USER",
		`web-1 | 1.2.3.4 - x 5.6.7.8 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`: `csv; read as combined: the client may be "1.2.3.4" or "5.6.7.8"`,
	} {
		_, err := NewReader("log", strings.NewReader(text), Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "log: the first lines are in none of the formats combined, ") || !strings.Contains(err.Error(), ", "+want) || want == "csv" && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.80q: got %v, want %s", text, err, want)
		}
	}
	_, err := NewReader("log", strings.NewReader("x"), Options{Format: "iis"})
	expect.True(t, err != nil && strings.Contains(err.Error(), `unknown format "iis"; want combined`), "got %v", err)
	for _, text := range []string{"\xff\xfe1\x00", "\xfe\xff\x001", "1\x00.\x00", "\x001\x00."} {
		for _, format := range []string{"", "combined"} {
			_, err := NewReader("log", strings.NewReader(text), Options{Format: format})
			expect.True(t, err != nil && err.Error() == "log: the log is UTF-16, want UTF-8", "%q: got %v", text, err)
		}
	}
	expect.ErrorIs(t, expect.ErrorOf(NewReader("log", iotest.ErrReader(iotest.ErrTimeout), Options{})), iotest.ErrTimeout, "result")
}

func TestLogsWithoutRequests(t *testing.T) {
	var gz, zs bytes.Buffer
	must.Do(t, gzip.NewWriter(&gz).Close())
	z, _ := zstd.NewWriter(&zs, zstd.WithZeroFrames(true))
	err := z.Close()
	must.True(t, err == nil && zs.Len() != 0, "%v, %v", err, zs.Len())
	for text, want := range map[string]string{
		"": "", "\n": "", "\r\n \r\n": "", "\ufeff": "", "\ufeff\n": "", gz.String(): "", zs.String(): "",
		"#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status\n": "cloudfront",
		"time,ip,method,path,status\n":                                             "csv",
	} {
		r, e := lastOf(t, strings.NewReader(text), Options{})
		if r.Format != want || r.Entries+r.BadSum+r.First.Entries != 0 || e.Client != "" || want == "" && !r.Knows("X-A") {
			t.Errorf("%q: got %q, %+v", text, r.Format, r)
		}
		r, _ = lastOf(t, strings.NewReader(text), Options{Format: "common"})
		expect.Equal(t, r.Format, "common", "%q", text)
	}
}

func TestBareEntriesHaveNoHeader(t *testing.T) {
	for _, tt := range logs {
		_, got := lastOf(t, strings.NewReader(tt.lines), Options{Bare: true, Format: tt.format, Fields: map[string]string{"header:X-A": "status"}})
		want := tt.want
		want.Header = nil
		expect.True(t, reflect.DeepEqual(got, want), "%s: got %+v\nwant %+v", tt.format, got, want)
	}
}

func FuzzCombined(f *testing.F)    { fuzz(f, "combined") }
func FuzzCommon(f *testing.F)      { fuzz(f, "common") }
func FuzzTraefik(f *testing.F)     { fuzz(f, "traefik") }
func FuzzCaddy(f *testing.F)       { fuzz(f, "caddy") }
func FuzzTraefikJSON(f *testing.F) { fuzz(f, "traefik-json") }
func FuzzEnvoy(f *testing.F)       { fuzz(f, "envoy") }
func FuzzALB(f *testing.F)         { fuzz(f, "alb") }
func FuzzCloudFront(f *testing.F)  { fuzz(f, "cloudfront") }
func FuzzJSON(f *testing.F)        { fuzz(f, "json") }
func FuzzCSV(f *testing.F)         { fuzz(f, "csv") }

// fuzz has a parser read texts line by line, and checks that each entry is complete.
func fuzz(f *testing.F, format string) {
	for _, tt := range logs {
		if tt.format == format {
			f.Add(tt.lines)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := must.Get(NewParser(Options{Format: format}))(t)
		var e Entry
		for line := range strings.SplitSeq(text, "\n") {
			if err := p.Parse(line, &e); err != nil {
				continue
			}
			must.True(t, e.Client != "" && isMethod(e.Method) && e.Target != "" && e.Status >= 0 &&
				e.Status <= 999 && e.Duration >= -1 && e.At.Year() >= 1990 && e.At.Year() <= 2200,
				"%q: got %+v", line, e)
		}
	})
}

func TestEachFormatIsAFuzzTarget(t *testing.T) {
	expect.Equal(t, len(Formats), 10, "formats, of which each has a fuzz target")
}

// allLines returns the lines and, in < >, the errors that next returns.
func allLines(r io.Reader) (got []string) {
	l := lines{in: r}
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			line = "<" + err.Error() + ">"
		}
		got = append(got, line)
		if err != nil && !errors.Is(err, errTooLong) {
			return got
		}
	}
}

func TestLinesAreReadAcrossBlocks(t *testing.T) {
	long, tooLong := strings.Repeat("l", maxLine), strings.Repeat("x", maxLine+1)
	failing := "<" + iotest.ErrTimeout.Error() + ">"
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"\n", []string{""}},
		{"a\r\nb\n\nc", []string{"a", "b", "", "c"}},
		{long + "\nb", []string{long, "b"}},
		{tooLong + "\nb", []string{"<" + errTooLong.Error() + ">", "b"}},
		{"a\n" + tooLong + tooLong, []string{"a", "<" + errTooLong.Error() + ">"}},
		{strings.Repeat("y", block-1) + "\n" + strings.Repeat("z", block) + "\n", []string{strings.Repeat("y", block-1), strings.Repeat("z", block)}},
	} {
		if got := allLines(strings.NewReader(tt.text)); !slices.Equal(got, tt.want) {
			t.Errorf("%.20q: got %d lines, want %d", tt.text, len(got), len(tt.want))
		}
		if got := allLines(iotest.HalfReader(strings.NewReader(tt.text))); !slices.Equal(got, tt.want) {
			t.Errorf("%.20q in small pieces: got %d lines, want %d", tt.text, len(got), len(tt.want))
		}
		got := allLines(io.MultiReader(strings.NewReader(tt.text), iotest.ErrReader(iotest.ErrTimeout)))
		want := append(slices.Clone(tt.want), failing)
		expect.True(t, slices.Equal(got, want), "%.20q and an error: got %d lines, want %d", tt.text, len(got), len(want))
	}
}
