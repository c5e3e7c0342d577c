package replay

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/spillgate/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/rulefile"
)

// Requests makes requests of entries, as the server has received them. They are one and the same request.
type Requests struct {
	Request http.Request
	URL     url.URL
	Users   bool // entries have users that somebody asks for
	none    http.Header
}

// NewRequests returns what makes the requests that a file needs.
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

// NeedsHeader reports whether a file needs more of requests than Entry.Header says.
func NeedsHeader(f *rulefile.File) bool {
	for i := range f.Rules {
		for _, need := range f.Needs(i) {
			if strings.HasPrefix(need, "header ") {
				return true
			}
		}
	}
	return false
}

// Set makes the request of an entry.
func (q *Requests) Set(e *accesslog.Entry) {
	r := &q.Request
	r.Method, r.Host, r.RemoteAddr, r.Header = e.Method, e.Host, e.Client, e.Header
	if r.Header == nil {
		clear(q.none)
		r.Header = q.none
	}
	target, query, _ := strings.Cut(e.Target, "?")
	if strings.HasPrefix(target, "/") && !strings.ContainsAny(target, "%\\") {
		q.URL = url.URL{Path: target, RawQuery: query}
	} else if u, err := url.ParseRequestURI(e.Target); err == nil {
		q.URL = *u
		if u.Host != "" {
			r.Host = u.Host
		}
	} else {
		q.URL = url.URL{Path: target, RawQuery: query}
	}
	if e.User != "" && q.Users {
		r.Header.Del("Authorization")
		r.SetBasicAuth(e.User, "")
	}
}
