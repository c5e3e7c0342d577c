package replay

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/rulefile"
)

// Requests turns entries into requests as the server received them. There is one request, which Set overwrites.
type Requests struct {
	Request http.Request
	URL     url.URL
	Users   bool // a rule needs the user
	none    http.Header
}

// NewRequests returns Requests with the parts that the rules of a file need.
func NewRequests(f *rulefile.File) *Requests {
	q := &Requests{none: http.Header{}}
	q.Request = http.Request{URL: &q.URL, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	for i := range f.Rules {
		for _, need := range f.Needs(i) {
			q.Users = q.Users || need == "user" || need == "header Authorization"
		}
	}
	return q
}

// preflightNeeds are the needs of a file that skips CORS preflights.
var preflightNeeds = []string{"header Access-Control-Request-Method", "header Origin"}

// skipsPreflights reports whether f skips CORS preflights.
func skipsPreflights(f *rulefile.File) bool {
	all, err := f.Explain(&http.Request{
		Method: http.MethodOptions, URL: &url.URL{Path: "/"},
		Header: http.Header{"Origin": {"null"}, "Access-Control-Request-Method": {http.MethodGet}},
	})
	return err == nil && len(all) > 0 && slices.Contains(all[0].Why, "skipped: it is a preflight")
}

// NeedsHeader reports whether a file may need a header field.
func NeedsHeader(f *rulefile.File) bool {
	if skipsPreflights(f) || len(f.Warnings) > 0 { // one may be that skip.addresses heeds the fields that proxies send
		return true
	}
	for i := range f.Rules {
		for _, need := range f.Needs(i) {
			if strings.HasPrefix(need, "header ") {
				return true
			}
		}
	}
	return false
}

// Set sets the request to the one that an entry describes.
func (q *Requests) Set(e *accesslog.Entry) {
	r := &q.Request
	r.Method, r.Host, r.RemoteAddr, r.Header = e.Method, e.Host, e.Client, e.Header
	if r.Header == nil {
		r.Header = q.none
	}
	target, query, _ := strings.Cut(e.Target, "?")
	prefix := ""
	if e.Method == http.MethodConnect && !strings.HasPrefix(target, "/") { // the target is a host, as for net/http
		prefix = "http://"
	}
	if strings.HasPrefix(target, "/") && strings.IndexByte(target, '%') < 0 && strings.IndexByte(target, '\\') < 0 {
		q.URL = url.URL{Path: target, RawQuery: query}
	} else if u, err := url.ParseRequestURI(prefix + e.Target); err == nil {
		q.URL = *u
		if u.Host != "" {
			r.Host = u.Host
		}
	} else {
		q.URL = url.URL{Path: target, RawQuery: query}
	}
	if e.User != "" && q.Users && r.Header["Authorization"] == nil {
		r.Header = r.Header.Clone() // parsers reuse it for the next entry
		r.SetBasicAuth(e.User, "")
	}
}
