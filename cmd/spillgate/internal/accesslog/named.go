package accesslog

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// knownFields are common field names in logs, by property of an entry, the likeliest first.
var knownFields = map[string][]string{
	"time":     {"time", "ts", "timestamp", "@timestamp", "time_iso8601", "msec", "time_local", "date", "datetime"},
	"started":  {"start", "started", "start_time"},
	"client":   {"client", "client_ip", "remote_addr", "remote_ip", "ip", "clientip", "c_ip", "remote", "host_ip"},
	"user":     {"user", "remote_user", "user_id", "username"},
	"request":  {"request", "request_line"},
	"method":   {"method", "request_method", "verb", "http_method"},
	"path":     {"path", "uri", "request_uri", "url", "target", "request_path"},
	"host":     {"host", "http_host", "server_name"},
	"status":   {"status", "status_code", "code", "response_status", "response_code"},
	"duration": {"duration", "request_time", "duration_s", "duration_ms", "duration_us", "duration_ns", "latency_human", "latency", "latency_s", "latency_ms", "latency_us", "latency_ns", "elapsed", "elapsed_s", "elapsed_ms", "elapsed_us", "elapsed_ns"},
}

// The fields of a program's logs by property. Where names differ by version, a line has the first that is there.
var (
	caddyFields = map[string][]string{ // client_ip since 2.7, remote_ip since 2.5
		"time": {"ts"}, "client": {"request.client_ip", "request.remote_ip", "request.remote_addr"}, "user": {"user_id"},
		"method": {"request.method"}, "path": {"request.uri"}, "host": {"request.host"}, "status": {"status"}, "duration": {"duration"},
		"headers": {"request.headers"},
	}
	traefikFields = map[string][]string{
		"started": {"StartUTC", "StartLocal"}, "client": {"ClientHost", "ClientAddr"}, "user": {"ClientUsername"}, "method": {"RequestMethod"},
		"path": {"RequestPath"}, "host": {"RequestHost", "RequestAddr"}, "status": {"DownstreamStatus"}, "duration_ns": {"Duration"},
	}
	envoyFields = map[string][]string{ // as Istio and Envoy Gateway name them
		"started": {"start_time"}, "client": {"downstream_remote_address"}, "method": {"method"}, "path": {"path", "x-envoy-origin-path"}, "host": {"authority", ":authority"},
		"status": {"response_code"}, "duration_ms": {"duration"},
	}
)

// durationUnits are the properties that are durations in a unit.
var durationUnits = map[string]time.Duration{"duration_s": time.Second, "duration_ms": time.Millisecond, "duration_us": time.Microsecond, "duration_ns": 1}

// Parts are the parts of a request that Options.Fields can name, besides header:NAME.
var Parts = append(slices.Sorted(maps.Keys(knownFields)), slices.Sorted(maps.Keys(durationUnits))...)

// maxProbed is the number of entries after which named no longer tries knownFields.
const maxProbed = 100

// named sets entries from values that have field names.
type named struct {
	entries int
	read    bool                // an entry has been read
	fields  map[string][]string // property of an entry to fields; for others, knownFields are tried
	headers map[string]string   // header to field
	bare    bool
	unit    time.Duration // of durations; 0: see unitOf
	seconds bool          // durations without a unit are in seconds
}

func newNamed(preset map[string][]string, o Options) named {
	n := named{fields: maps.Clone(preset), headers: make(map[string]string), bare: o.Bare, seconds: o.seconds}
	if n.fields == nil {
		n.fields = make(map[string][]string)
	}
	for property, field := range o.Fields {
		if header, ok := strings.CutPrefix(property, "header:"); ok {
			n.headers[http.CanonicalHeaderKey(header)] = field
			continue
		}
		n.fields[property] = []string{field}
		if property == "time" && o.Fields["started"] == "" && !slices.Contains(preset["started"], field) {
			delete(n.fields, "started")
		}
	}
	own := o.Fields["duration"] != ""
	for property := range durationUnits {
		own = own || o.Fields[property] != ""
	}
	for property, unit := range durationUnits {
		if fields := n.fields[property]; fields != nil && (!own || o.Fields[property] != "") {
			n.fields["duration"], n.unit = fields, unit
		}
	}
	return n
}

func (n *named) inSeconds() bool { return n.seconds }

// value returns a property of an entry and the name of its field.
func (n *named) value(property string, get func(string) string) (value, field string) {
	fields, ok := n.fields[property]
	if !ok && n.entries <= maxProbed {
		fields = knownFields[property]
	}
	for _, field := range fields {
		if value := get(field); value != "" {
			if !ok {
				n.fields[property] = []string{field}
			}
			return value, field
		}
	}
	return "", ""
}

func (n *named) set(e *Entry, get func(string) string) error {
	*e = Entry{Duration: -1, Header: e.Header}
	n.entries++
	n.setDuration(e, get)
	var wrong partsError
	if err := n.setTime(e, get); err != nil {
		wrong = append(wrong, err)
	}
	if client, _ := n.value("client", get); client == "" {
		wrong = append(wrong, fmt.Errorf("there is no client; say --field client=NAME"))
	} else if err := e.setClient(client); err != nil {
		wrong = append(wrong, err)
	}
	if status, _ := n.value("status", get); status != "" {
		status, _, _ = strings.Cut(status, " ") // 200 OK
		if err := e.setStatus(strings.TrimSuffix(status, ".0")); err != nil {
			wrong = append(wrong, err)
		}
	}
	method, _ := n.value("method", get)
	path, _ := n.value("path", get)
	line := method + " " + path + " HTTP/1.1"
	if method == "" || path == "" {
		line, _ = n.value("request", get)
	}
	if line == "" && !n.read { // after an entry, such a line is about no request
		wrong = append(wrong, fmt.Errorf("there is no method or no path; say --field method=NAME --field path=NAME"))
	}
	if wrong != nil {
		return wrong
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
	err := e.setRequest(line)
	n.read = n.read || err == nil
	return err
}

// setTime reads when a request ended or, if the log says so, when it started.
func (n *named) setTime(e *Entry, get func(string) string) (err error) {
	text := ""
	if n.fields["started"] != nil {
		text, _ = n.value("started", get)
	}
	if e.Started = text != ""; !e.Started {
		text, _ = n.value("time", get)
	}
	if text == "" {
		text, _ = n.value("started", get)
		e.Started = text != ""
	}
	if text == "" {
		return fmt.Errorf("there is no time; say --field time=NAME")
	}
	e.At, e.Seconds, err = anyTime(text)
	if e.Seconds { // nginx can log the same time with milliseconds too
		if at, whole, err := anyTime(get("msec")); err == nil && !whole && at.Truncate(time.Second).Equal(e.At) {
			e.At, e.Seconds = at, false
		}
	}
	return err
}

// setDuration reads how long a request took. A number is in the unit of the property or of the field's name.
//
// Without either, it may be in seconds, as in Caddy's logs, in milliseconds, as in Envoy's, or in nanoseconds. Whole
// numbers, including 0, are not read until a fraction shows that the log has seconds: a log in which only the zeros had
// durations would pass for one with durations.
func (n *named) setDuration(e *Entry, get func(string) string) {
	text, field := n.value("duration", get)
	unit := cmp.Or(n.unit, unitOf(field))
	if unit == 0 {
		unit = time.Second
		if _, err := strconv.ParseFloat(text, 64); err == nil && !n.seconds {
			if n.seconds = strings.ContainsAny(text, ".eE"); !n.seconds {
				return
			}
		}
	}
	e.Duration = durationIn(strings.ReplaceAll(text, " ", ""), unit)
}

// unitOf returns the unit in a field's name, or 0.
func unitOf(field string) time.Duration {
	if field == "request_time" { // nginx
		return time.Second
	}
	if strings.HasSuffix(field, "Ms") {
		return time.Millisecond
	}
	return durationUnits["duration"+field[max(0, strings.LastIndexByte(field, '_')):]]
}

// durationIn reads a number of units, or a duration such as "12ms". It returns -1 for anything else.
func durationIn(text string, unit time.Duration) time.Duration {
	if d, ok := seconds(text); ok && unit == time.Second {
		return d
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d
	}
	f, err := strconv.ParseFloat(text, 64) // 9.3e-05
	if err != nil || !(0 <= f && f < float64(time.Second/unit<<31)) {
		return -1
	}
	return time.Duration(f * float64(unit))
}
