package accesslog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// logs are lines of each format, and the entry that the last of them is.
var logs = []struct {
	format string
	lines  string
	want   Entry
}{
	{
		"combined", `203.0.113.7 - ann [10/Oct/2025:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "http://example.com/" "Mozilla \"x\""`,
		Entry{At: at("2025-10-10T20:55:36Z"), Seconds: true, Client: "203.0.113.7", User: "ann", Method: "GET", Target: "/a?b=c", Status: 200, Duration: -1,
			Header: http.Header{"Referer": {"http://example.com/"}, "User-Agent": {`Mozilla "x"`}}},
	},
	{ // Apache, with the virtual host in front
		"combined", `www.example.com:443 2001:db8::1 - - [10/Oct/2025:13:55:36 +0000] "POST /login HTTP/2.0" 401 - "-" "-"`,
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Host: "www.example.com:443", Client: "2001:db8::1", Method: "POST", Target: "/login", Status: 401, Duration: -1},
	},
	{ // fields that follow the combined format are not read
		"combined", `host.example - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.0" 200 5 "-" "curl" "203.0.113.9" 0.123`,
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "host.example", Method: "GET", Target: "/", Status: 200, Duration: -1, Header: http.Header{"User-Agent": {"curl"}}},
	},
	{
		"common", `127.0.0.1 - first last [10/Oct/2025:13:55:36 +0000] "GET /a b HTTP/1.0" 304 0`,
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "127.0.0.1", User: "first last", Method: "GET", Target: "/a b", Status: 304, Duration: -1},
	},
	{
		"traefik", `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET /x HTTP/1.1" 200 9 "-" "curl/8" 12 "web@docker" "http://10.0.0.2:80" 34ms`,
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "192.0.2.1", Method: "GET", Target: "/x", Status: 200, Duration: 34 * time.Millisecond, Header: http.Header{"User-Agent": {"curl/8"}}},
	},
	{
		"caddy", `{"level":"info","ts":1760104536.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","client_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a?b","headers":{"X-Api-Key":["k1"]}},"user_id":"","duration":9.29675e-05,"size":10900,"status":200}`,
		Entry{At: at("2025-10-10T13:55:36.5Z"), Client: "203.0.113.7", Method: "GET", Target: "/a?b", Host: "example.com", Status: 200, Duration: 92967, Header: http.Header{"X-Api-Key": {"k1"}}},
	},
	{
		"traefik-json", `{"ClientAddr":"192.0.2.1:5","ClientHost":"192.0.2.1","ClientUsername":"-","DownstreamStatus":404,"Duration":1500000,"RequestHost":"h","RequestMethod":"GET","RequestPath":"/x","StartUTC":"2025-10-10T13:55:36.25Z","time":"2025-10-10T13:55:37Z"}`,
		Entry{At: at("2025-10-10T13:55:36.25Z"), Started: true, Client: "192.0.2.1", Method: "GET", Target: "/x", Host: "h", Status: 404, Duration: 1500 * time.Microsecond},
	},
	{
		"alb", `https 2025-10-10T13:55:36.186641Z app/lb/50dc 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a HTTP/1.1" "curl/7.46.0" ECDHE TLSv1.2 arn:aws "Root=1" "www.example.com" "arn" 1 2025-10-10T13:55:36.000000Z "forward" "-" "-"`,
		Entry{At: at("2025-10-10T13:55:36.186641Z"), Client: "192.168.131.39", Method: "GET", Target: "https://www.example.com:443/a", Status: 200, Duration: 171 * time.Millisecond, Header: http.Header{"User-Agent": {"curl/7.46.0"}}},
	},
	{
		"cloudfront", "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken\n" +
			"2025-10-10\t13:55:36\tFRA2\t300\t203.0.113.7\tGET\td1.cloudfront.net\t/a\t200\t-\tMozilla/5.0%20(X)\tb=c\t-\tHit\tid\twww.example.com\thttps\t23\t0.001",
		Entry{At: at("2025-10-10T13:55:36Z"), Seconds: true, Client: "203.0.113.7", Method: "GET", Target: "/a?b=c", Host: "www.example.com", Status: 200, Duration: time.Millisecond, Header: http.Header{"User-Agent": {"Mozilla/5.0 (X)"}}},
	},
	{
		"json", `{"@timestamp":"2025-10-10T13:55:36.5+02:00","remote_addr":"203.0.113.7:99","request":"PUT /x HTTP/1.1","status":"201","request_time":"0.25","remote_user":"bob"}`,
		Entry{At: at("2025-10-10T11:55:36.5Z"), Client: "203.0.113.7", User: "bob", Method: "PUT", Target: "/x", Status: 201, Duration: 250 * time.Millisecond},
	},
	{
		"csv", "timestamp,ip,method,path,status,latency_ms\n1760104536500,203.0.113.7,GET,\"/a,b\",200,12.5",
		Entry{At: at("2025-10-10T13:55:36.5Z"), Client: "203.0.113.7", Method: "GET", Target: "/a,b", Status: 200, Duration: 12500 * time.Microsecond},
	},
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
	reader, err := NewReader("log", r, o)
	if err != nil {
		t.Fatal(err)
	}
	var e, last Entry
	for {
		err := reader.Next(&e)
		if errors.Is(err, io.EOF) {
			return reader, last
		}
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
}

func TestFormatsAreDetectedAndRead(t *testing.T) {
	for _, tt := range logs {
		for _, end := range []string{"", "\n", "\r\n"} {
			r, got := lastOf(t, strings.NewReader(strings.ReplaceAll(tt.lines, "\n", strings.TrimSuffix(end, "\n")+"\n")+end), Options{})
			if len(got.Header) == 0 {
				got.Header = nil
			}
			if !reflect.DeepEqual(got, tt.want) || r.Format != tt.format || r.Entries != 1 || r.BadSum != 0 || r.Timed != (tt.want.Duration >= 0) {
				t.Errorf("%s: got %s, %d entries, bad %v\n%+v\nwant\n%+v", tt.format, r.Format, r.Entries, r.Bad, got, tt.want)
			}
		}
	}
}

func TestNoValueStaysFromTheLineBefore(t *testing.T) {
	for _, tt := range logs {
		p, err := NewParser(Options{Format: tt.format})
		if err != nil {
			t.Fatal(err)
		}
		e := Entry{Client: "x", User: "x", Host: "x", Status: 7, Duration: 7, Started: true, Header: http.Header{}}
		for line := range strings.SplitSeq(tt.lines, "\n") {
			err = p.Parse(line, &e)
		}
		if len(e.Header) == 0 {
			e.Header = nil
		}
		if err != nil || !reflect.DeepEqual(e, tt.want) {
			t.Errorf("%s: got %v\n%+v\nwant\n%+v", tt.format, err, e, tt.want)
		}
	}
}

func TestCompressedLogs(t *testing.T) {
	var gz, zs bytes.Buffer
	for range 2 { // logs are often concatenated
		w := gzip.NewWriter(&gz)
		_, _ = io.WriteString(w, logs[0].lines+"\n")
		_ = w.Close()
		z, _ := zstd.NewWriter(&zs)
		_, _ = io.WriteString(z, logs[0].lines+"\n")
		_ = z.Close()
	}
	for _, r := range []io.Reader{&gz, &zs} {
		if r, e := lastOf(t, r, Options{}); r.Entries != 2 || e.Client != "203.0.113.7" {
			t.Errorf("got %d entries, %+v", r.Entries, e)
		}
	}
}

func TestBadLinesAreCountedAndNamed(t *testing.T) {
	good := logs[0].lines
	text := good + "\nnonsense\n\n" + `1.2.3.4 - - [10/Oct/2025:13:55:36 +0000] "\x16\x03\x01" 400 0 "-" "-"` + "\n" + strings.Repeat("x", maxLine+300_000) + "\n" + good + "\n" +
		`1.2.3.4 - - [10/Foo/2025:13:55:36 +0000] "GET / HTTP/1.1" 400 0 "-" "-"`
	r, _ := lastOf(t, strings.NewReader(text), Options{})
	if r.Entries != 2 || r.Others != 1 || r.BadSum != 3 || r.Lines != 7 || r.Bad[0].Line != 2 || r.Bad[1].Line != 5 || r.Bad[2].Line != 7 ||
		!strings.Contains(r.Bad[1].Why, "longer than") || !strings.Contains(r.Bad[2].Why, "10/Foo/2025") {
		t.Errorf("got %d entries, %d others, %d bad of %d lines: %v", r.Entries, r.Others, r.BadSum, r.Lines, r.Bad)
	}
}

func TestFieldsByName(t *testing.T) {
	fields := map[string]string{"client": "http.peer", "time": "when", "method": "m", "path": "p", "header:x-api-key": "key"}
	line := `{"when":1760104536,"http":{"peer":"::1"},"m":"GET","p":"/","key":"k"}`
	r, e := lastOf(t, strings.NewReader(line), Options{Fields: fields})
	if r.Format != "json" || e.Client != "::1" || e.Header.Get("X-Api-Key") != "k" || !e.Seconds || !r.Knows("X-Api-Key") || r.Knows("X-Other") {
		t.Errorf("got %s, %+v", r.Format, e)
	}
}

func TestNoFormatFits(t *testing.T) {
	for _, text := range []string{"", "hello\nworld\n", "{}\n"} {
		if _, err := NewReader("log", strings.NewReader(text), Options{}); err == nil || !strings.Contains(err.Error(), "log: the first lines are in none of the formats combined") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if _, err := NewReader("log", strings.NewReader(""), Options{Format: "iis"}); err == nil || !strings.Contains(err.Error(), `unknown format "iis"; want combined`) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkParse(b *testing.B) {
	for _, tt := range logs {
		b.Run(tt.format, func(b *testing.B) {
			p, _ := NewParser(Options{Format: tt.format})
			var e Entry
			lines := strings.Split(tt.lines, "\n")
			for _, line := range lines[:len(lines)-1] {
				_ = p.Parse(line, &e)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Parse(lines[len(lines)-1], &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestBareEntriesHaveNoHeader(t *testing.T) {
	for _, tt := range logs {
		_, got := lastOf(t, strings.NewReader(tt.lines), Options{Bare: true, Format: tt.format, Fields: map[string]string{"header:X-A": "status"}})
		want := tt.want
		if want.Header = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", tt.format, got, want)
		}
	}
}
