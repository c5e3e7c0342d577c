package keyfunc

import (
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// Cookie uses the value of a cookie, hashed as in APIKey: "cookie:sid:" and 32 hexadecimal digits. It does not verify
// the cookie: a client that drops it has no key, and a client that makes up values has as many keys as it likes. So has a
// client with one session if the application decodes values, as gin does with percent-encoding and securecookie with
// base64: for sessions, use User with the id that it has verified.
//
// A request without the cookie, or with an empty value in it, fails with ErrNoKey. It fails with ErrBadKey if several
// cookies have the name, even with equal values, or if net/http rejects the value. Cookie panics if name cannot be the
// name of a cookie.
func Cookie(name string) core.KeyFunc {
	if !token(name) {
		panic(misuse("Cookie needs the name of a cookie, got %q", name))
	}
	fail := errorsOf("cookie " + name)
	prefix := "cookie:" + name + ":"
	return func(r *http.Request) (string, error) {
		switch countCookies(r.Header["Cookie"], name) {
		case 0:
			return "", fail.missing
		case 1:
		default:
			return "", fail.repeated
		}
		c, err := r.Cookie(name)
		if err != nil {
			return "", fail.malformed
		}
		if c.Value == "" {
			return "", fail.missing
		}
		return hashed(prefix, c.Value), nil
	}
}

// countCookies counts the cookies of a name, including cookies that net/http skips because their value is malformed.
func countCookies(lines []string, name string) (n int) {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if found, _, _ := strings.Cut(pair, "="); strings.TrimSpace(found) == name {
				n++
			}
		}
	}
	return n
}
