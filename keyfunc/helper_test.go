package keyfunc

import (
	"errors"
	"net/http"
	"net/netip"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// request returns a request from remote with header lines: name, value, name, value.
func request(remote string, lines ...string) *http.Request {
	r := &http.Request{RemoteAddr: remote, Header: http.Header{}}
	for i := 0; i < len(lines); i += 2 {
		r.Header.Add(lines[i], lines[i+1])
	}
	return r
}

func prefixes(texts ...string) (ps []netip.Prefix) {
	for _, s := range texts {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// failures are the words that tables use for an error.
var failures = map[string]error{"error": core.ErrNoKey, "bad": core.ErrBadKey, "invalid": core.ErrInvalid}

// checkKey checks that fn finds want in r, or fails with exactly the error that want names.
func checkKey(t *testing.T, fn core.KeyFunc, r *http.Request, want string) {
	t.Helper()
	got, err := fn(r)
	if failures[want] != nil {
		for name, kind := range failures {
			expect.True(t, got == "" && errors.Is(err, kind) == (name == want), "got %q, %v, want an error of kind %q only", got, err, want)
		}
		return
	}
	expect.True(t, got == want && err == nil, "got %q, %v, want %q", got, err, want)
}

// checkClientIP does the same for both ways to use c.
func checkClientIP(t *testing.T, c ClientIP, r *http.Request, want string) {
	t.Helper()
	checkKey(t, c.Key, r, want)
	checkKey(t, must.Get(NewClientIP(c))(t), r, want)
}
