// Package accesslog reads lines of access logs: common and combined (nginx, Apache), Traefik, Caddy, Envoy, AWS ALB,
// CloudFront, JSON lines and CSV.
//
//	log, err := accesslog.NewReader("access.log", file, accesslog.Options{})
//	var e accesslog.Entry
//	for err == nil {
//		err = log.Next(&e) // io.EOF after the last
//	}
//
// This package parses text formats itself. Other packages use regular expressions (satyrius/gonx), allocate a map or a
// struct of strings per line (Songmu/axslogparser, nxparse, ngxlog), are under the GPL (xojoc/logparse), or support one
// server only. JSON is read by tidwall/gjson, CSV by encoding/csv.
package accesslog

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// An Entry is a request in a log. Its strings share the memory of the line.
type Entry struct {
	At       time.Time // when the request ended, unless Started
	Started  bool      // At is when the request began
	Seconds  bool      // At has no fraction
	Client   string    // an address or a host name
	User     string
	Method   string
	Target   string // the path, or an absolute URL
	Host     string
	Status   int           // 0 if it is not known, or if there was no response
	Duration time.Duration // -1 if it is not known
	Header   http.Header   // the fields of the request's header that the log has
}

// End returns when the request ended or, if that is unknown, when it began.
func (e *Entry) End() time.Time {
	if e.Started && e.Duration > 0 {
		return e.At.Add(e.Duration)
	}
	return e.At
}

// ErrNotRequest means that a line is not about a request, but about a failed handshake, for example.
var ErrNotRequest = errors.New("not a request")

// errSkip is returned for lines without an entry, such as comments.
var errSkip = errors.New("no entry")

// A Parser reads the lines of one file, in order.
type Parser interface {
	// Parse sets e to the entry of a line. Its error wraps ErrNotRequest if the line is well formed but not about a
	// request.
	Parse(line string, e *Entry) error
	// Knows reports whether entries have this field of the request's header.
	Knows(header string) bool
}

// Options describe the layout of a log, as far as its lines do not show it.
type Options struct {
	Format  string            // one of Formats; empty: detect it from the first lines
	Fields  map[string]string // of JSON and CSV: client, method, .. and header:NAME to the name in the log; a dot goes deeper
	Bare    bool              // entries get no Header, which takes time
	seconds bool              // durations without a unit are in seconds
}

// Formats are the names of formats.
var Formats = []string{"combined", "common", "traefik", "caddy", "traefik-json", "envoy", "alb", "cloudfront", "json", "csv"}

// NewParser returns a parser of a format.
func NewParser(o Options) (Parser, error) {
	switch o.Format {
	case "combined", "common", "traefik":
		return &clf{traefik: o.Format == "traefik", common: o.Format == "common", bare: o.Bare}, nil
	case "caddy":
		return newJSON(caddyFields, o), nil
	case "traefik-json":
		return newJSON(traefikFields, o), nil
	case "envoy":
		return newJSON(envoyFields, o), nil
	case "json":
		return newJSON(nil, o), nil
	case "alb":
		return &alb{bare: o.Bare}, nil
	case "cloudfront":
		return &cloudFront{bare: o.Bare}, nil
	case "csv":
		return &csvLog{options: o}, nil
	}
	return nil, fmt.Errorf("unknown format %q; want %s", o.Format, strings.Join(Formats, ", "))
}

// partsError are the mistakes in the parts of a request, one per part.
type partsError []error

func (p partsError) Error() string { return strings.ReplaceAll(errors.Join(p...).Error(), "\n", "; ") }

// marks are fields that tell the JSON of a program from others, whatever names Options.Fields gives to its parts.
var marks = map[string][]string{
	"caddy": {"request.uri"}, "traefik-json": {"RequestMethod", "RequestPath"},
	"envoy": {"downstream_remote_address", "response_flags", "response_code_details", "upstream_host", "upstream_service_time", "authority", ":authority"},
}

func hasMark(line, format string) bool {
	names, some := marks[format]
	return !some || slices.ContainsFunc(names, func(name string) bool { return jsonField(jsonOf(line), name) != "" })
}

// Detect returns the format that reads most of the first lines of a log. With fields, it tries only formats with field
// names. If the lines only name fields, because there were no requests, it returns the format that names fields so.
func Detect(lines []string, fields map[string]string) (string, error) {
	best, most := "", 0
	formats := []string{"cloudfront", "alb", "traefik", "combined", "common", "caddy", "traefik-json", "envoy", "json", "csv"}
	if len(fields) > 0 {
		formats = formats[5:]
	}
	nearest := errors.New("")
	parts := 3 // that are wrong in the nearest
	for _, format := range formats {
		p, err := NewParser(Options{Format: format, Fields: fields})
		if err != nil {
			return "", err
		}
		read := 0
		for _, line := range lines {
			var e Entry
			var wrong partsError
			switch err := p.Parse(line, &e); {
			case !hasMark(line, format):
			case err == nil || errors.Is(err, ErrNotRequest):
				read++
			case errors.As(err, &wrong) && len(wrong) < parts:
				nearest, parts = fmt.Errorf("; read as %s: %w", format, wrong), len(wrong)
			}
		}
		if h, ok := p.(interface{ hasHeader() bool }); ok && best == "" && parts == 3 && h.hasHeader() {
			best = format
		}
		if read > most {
			best, most = format, read
		}
	}
	if best != "" {
		return best, nil
	}
	return "", fmt.Errorf("the first lines are in none of the formats %s%w", strings.Join(Formats, ", "), nearest)
}

// setRequest reads "GET /path HTTP/1.1".
func (e *Entry) setRequest(line string) error {
	method, rest, ok := strings.Cut(line, " ")
	target := rest
	if i := strings.LastIndexByte(rest, ' '); i >= 0 && strings.HasPrefix(rest[i+1:], "HTTP/") {
		target = rest[:i]
	}
	if !ok || !isMethod(method) || target == "" {
		return fmt.Errorf("%w: %.40q", ErrNotRequest, line)
	}
	e.Method, e.Target = method, target
	return nil
}

// isMethod reports whether s is a method. A hyphen alone stands for none, as for a connection that ended early.
func isMethod(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && s != "-" && len(s) <= 20
}

// number reads a whole number that is not negative.
func number(s string) (int64, bool) {
	n := int64(0)
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' || n > 1<<40 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, s != ""
}

// setStatus reads a status code; "-" and "000" mean that there was no response.
func (e *Entry) setStatus(s string) error {
	n, ok := number(s)
	if s == "-" {
		n, ok = 0, true
	}
	if !ok || n > 999 {
		return fmt.Errorf("%.20q is not a status", s)
	}
	e.Status = int(n)
	return nil
}

// seconds reads "0.123".
func seconds(s string) (time.Duration, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	n, ok := number(whole)
	if !ok || len(fraction) > 12 || n > 1<<31 {
		return -1, false
	}
	d := time.Duration(n) * time.Second
	unit := time.Second
	for i := range len(fraction) {
		if fraction[i] < '0' || fraction[i] > '9' {
			return -1, false
		}
		unit /= 10
		d += unit * time.Duration(fraction[i]-'0')
	}
	return d, true
}
