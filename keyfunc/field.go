package keyfunc

import (
	"net/http"
	"strings"
)

// readable reports whether r.Header can hold a field of this name: a token (RFC 9110 §5.6.2) other than Host, which
// net/http keeps elsewhere.
func readable(name string) bool { return token(name) && !strings.EqualFold(name, "Host") }

func token(s string) bool {
	for i := range len(s) {
		if !tokenLetter(s[i]) {
			return false
		}
	}
	return s != ""
}

func tokenLetter(c byte) bool { return alphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 }

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// appendCanonical appends the form in which http.Header has name, which is a token.
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

// only returns the value of a header, whose name is canonical. It is empty if there is none, or if several lines
// differ: who sends two identities has none, because the application behind may go by the other one.
func only(h http.Header, name string) string {
	value := ""
	for i, line := range h[name] {
		line = trim(line)
		if i > 0 && line != value {
			return ""
		}
		value = line
	}
	return value
}
