package keyfunc

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// keyErrors are the errors of a key func that reads a field of the request. They are made once, not per request.
type keyErrors struct {
	missing   error // wraps ErrNoKey
	repeated  error // wraps ErrBadKey
	malformed error // wraps ErrBadKey
}

// errorsOf returns errors that name the field.
func errorsOf(field string) keyErrors {
	return keyErrors{
		missing:   fmt.Errorf("%s: %w", field, core.ErrNoKey),
		repeated:  fmt.Errorf("%s: %w: sent more than once", field, core.ErrBadKey),
		malformed: fmt.Errorf("%s: %w: malformed", field, core.ErrBadKey),
	}
}

// single returns the value of a header, whose name is canonical, without the whitespace around it. An empty value is
// missing. Several lines are an error even if they are equal, because some applications read the first, some the last,
// and some all of them joined.
func (e *keyErrors) single(h http.Header, name string) (string, error) {
	lines := h[name]
	if len(lines) > 1 {
		return "", e.repeated
	}
	if len(lines) == 1 {
		if value := strings.TrimSpace(lines[0]); value != "" {
			return value, nil
		}
	}
	return "", e.missing
}

// readable reports whether r.Header can hold a field of this name: a token (RFC 9110 §5.6.2) other than Host, which
// net/http keeps elsewhere.
func readable(name string) bool { return token(name) && !strings.EqualFold(name, "Host") }

func token(s string) bool {
	for i := range len(s) {
		if !tokenChar(s[i]) {
			return false
		}
	}
	return s != ""
}

func tokenChar(c byte) bool { return alphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 }

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// appendCanonical appends the canonical form of name, a token, which http.Header uses as its index.
func appendCanonical(b []byte, name string) []byte {
	upper := true
	for i := range len(name) {
		c := name[i]
		switch {
		case upper && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		case !upper && 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		b = append(b, c)
		upper = c == '-'
	}
	return b
}
