package accesslog

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// knownFields are common field names in logs, by property of an entry, the likeliest first. A duration is in the unit
// that its field name ends in, or else in seconds.
var knownFields = map[string][]string{
	"time":     {"time", "ts", "timestamp", "@timestamp", "time_iso8601", "msec", "time_local", "date", "datetime"},
	"started":  {"start", "started", "start_time"},
	"client":   {"client", "client_ip", "remote_addr", "remote_ip", "ip", "clientip", "c_ip", "remote", "host_ip"},
	"user":     {"user", "remote_user", "user_id", "username"},
	"request":  {"request", "request_line"},
	"method":   {"method", "request_method", "verb", "http_method"},
	"path":     {"path", "uri", "request_uri", "url", "target", "request_path"},
	"host":     {"host", "http_host", "server_name"},
	"status":   {"status", "status_code", "code", "response_status"},
	"duration": {"duration", "request_time", "duration_s", "duration_ms", "duration_us", "duration_ns", "latency", "latency_ms", "elapsed", "elapsed_ms"},
}

var caddyFields = map[string]string{
	"time": "ts", "client": "request.client_ip", "user": "user_id", "method": "request.method", "path": "request.uri", "host": "request.host",
	"status": "status", "duration": "duration", "headers": "request.headers",
}

var traefikFields = map[string]string{
	"started": "StartUTC", "client": "ClientHost", "user": "ClientUsername", "method": "RequestMethod", "path": "RequestPath", "host": "RequestHost",
	"status": "DownstreamStatus", "duration_ns": "Duration",
}

// maxProbed is the number of entries after which named no longer tries knownFields.
const maxProbed = 100

// named sets entries from values that have field names.
type named struct {
	entries int
	fields  map[string]string // property of an entry to field; for others, knownFields are tried
	headers map[string]string // header to field
	bare    bool
}

func newNamed(preset map[string]string, o Options) named {
	n := named{fields: maps.Clone(preset), headers: make(map[string]string), bare: o.Bare}
	if n.fields == nil {
		n.fields = make(map[string]string)
	}
	for property, field := range o.Fields {
		if header, ok := strings.CutPrefix(property, "header:"); ok {
			n.headers[http.CanonicalHeaderKey(header)] = field
			continue
		}
		n.fields[property] = field
	}
	return n
}

// value returns a property of an entry and the name of its field.
func (n *named) value(property string, get func(string) string) (value, field string) {
	if field, ok := n.fields[property]; ok {
		return get(field), field
	}
	if n.entries > maxProbed {
		return "", ""
	}
	for _, field := range knownFields[property] {
		if value := get(field); value != "" {
			n.fields[property] = field
			return value, field
		}
	}
	return "", ""
}

func (n *named) set(e *Entry, get func(string) string) error {
	*e = Entry{Duration: -1, Header: e.Header}
	n.entries++
	if err := n.setTimes(e, get); err != nil {
		return err
	}
	if e.Client, _ = n.value("client", get); e.Client == "" {
		return fmt.Errorf("there is no client; say --field client=NAME")
	}
	if host, _, err := net.SplitHostPort(e.Client); err == nil && host != "" {
		e.Client = host
	}
	if status, _ := n.value("status", get); status != "" {
		if err := e.setStatus(status); err != nil {
			return err
		}
	}
	if user, _ := n.value("user", get); user != "-" {
		e.User = user
	}
	e.Host, _ = n.value("host", get)
	if !n.bare {
		for header, field := range n.headers {
			e.setHeader(header, get(field))
		}
	}
	method, _ := n.value("method", get)
	path, _ := n.value("path", get)
	if method == "" || path == "" {
		if line, _ := n.value("request", get); line != "" {
			return e.setRequest(line)
		}
		return fmt.Errorf("there is no method or no path; say --field method=NAME --field path=NAME")
	}
	return e.setRequest(method + " " + path + " HTTP/1.1")
}

// setTimes reads when a request ended and how long it took, or when it started.
func (n *named) setTimes(e *Entry, get func(string) string) (err error) {
	if text, field := n.value("duration", get); text != "" {
		e.Duration = durationOf(text, field)
	}
	if text := get(n.fields["duration_ns"]); n.fields["duration_ns"] != "" && text != "" {
		e.Duration = durationOf(text, "_ns")
	}
	text, _ := n.value("time", get)
	if field, ok := n.fields["started"]; ok && get(field) != "" {
		text, e.Started = get(field), true
	}
	if text == "" {
		return fmt.Errorf("there is no time; say --field time=NAME")
	}
	e.At, e.Seconds, err = anyTime(text)
	return err
}

// durationOf reads a number in the unit that the field name ends in, or a duration such as "12ms". It returns -1 for
// anything else.
func durationOf(text, field string) time.Duration {
	d, ok := seconds(text)
	if !ok {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return d
		}
		f, err := strconv.ParseFloat(text, 64) // 9.3e-05
		if err != nil || !(0 <= f && f < 1e6) {
			return -1
		}
		d = time.Duration(f * float64(time.Second))
	}
	for suffix, unit := range map[string]time.Duration{"_ms": 1000, "_us": 1_000_000, "_ns": 1_000_000_000} {
		if strings.HasSuffix(field, suffix) {
			return d / unit
		}
	}
	return d
}
