package keyfunc

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	bearerErrors = errorsOf("bearer token")
	basicErrors  = errorsOf("basic auth user")
)

// Bearer uses the token in "Authorization: Bearer", hashed as in APIKey: "bearer:" and 32 hexadecimal digits. The
// scheme is case-insensitive. The token is not verified.
//
// A verified token may have several spellings, each with its own limit: many libraries ignore the last bits of a JWT's
// signature, and anybody can make a second ECDSA signature from the first. For JWTs, use User with the verified subject.
//
// A request without Authorization, or with another scheme in it, fails with ErrNoKey. It fails with ErrBadKey if there
// are several Authorization lines, if no token follows the scheme after a space, if there is no scheme, if the token
// has whitespace, a comma, a quote or non-ASCII bytes in it, or if a lenient application may find the scheme in the value
// of another one, as in "Bearers x" and "Digest bearer x".
func Bearer(r *http.Request) (string, error) {
	token, err := credentials(r, "bearer", &bearerErrors)
	if err != nil {
		return "", err
	}
	if !bearerToken(token) {
		return "", bearerErrors.malformed
	}
	return hashed("bearer:", token), nil
}

// BasicUser uses the user name of HTTP Basic authentication (RFC 7617): "basic:ann". It does not verify the password,
// so clients choose this key unless something in front of the limiter verifies it.
//
// Applications often accept several spellings of a name, and each spelling would have its own limit. So BasicUser
// removes whitespace around the name and characters that cannot be seen, such as a zero-width space, and writes it in
// lower case: names that are equal under strings.EqualFold have one key. It does not fold other forms of letters:
// full-width letters, combining accents, or letters of another alphabet that look the same. If your application accepts
// those, use the name that it has verified. If it distinguishes Ann from ann, use the name as the client sent it:
//
//	keyfunc.User(func(r *http.Request) (string, bool) {
//		name, _, ok := r.BasicAuth()
//		return name, ok
//	})
//
// A request without Authorization, or with another scheme in it, fails with ErrNoKey. It fails with ErrBadKey if there
// are several Authorization lines, if there is no scheme, if the credentials do not decode, if the name is empty or has
// control characters, or if a lenient application may find the scheme in the value of another one, as for Bearer.
func BasicUser(r *http.Request) (string, error) {
	if _, err := credentials(r, "basic", &basicErrors); err != nil {
		return "", err
	}
	name, _, ok := r.BasicAuth()
	if !ok || strings.ContainsFunc(name, control) {
		return "", basicErrors.malformed
	}
	if name = foldName(name); name == "" {
		return "", basicErrors.malformed
	}
	return "basic:" + name, nil
}

// foldName returns the same text for names that differ only in case, in surrounding whitespace and in invisible
// characters. Bytes that are not UTF-8 stay as they are, because two names in another encoding must not become one.
func foldName(name string) string {
	var folded strings.Builder
	for rest := name; rest != ""; {
		c, size := utf8.DecodeRuneInString(rest)
		switch {
		case c == utf8.RuneError && size == 1:
			folded.WriteString(rest[:1])
		case !invisible(c):
			folded.WriteRune(foldCase(c))
		}
		rest = rest[size:]
	}
	return strings.TrimSpace(folded.String())
}

// foldCase returns the lower case of the smallest of the characters that differ from c only in case.
func foldCase(c rune) rune {
	least := c
	for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return unicode.ToLower(least)
}

// invisible reports whether c is a control character or one that is not displayed: Default_Ignorable_Code_Point of
// https://www.unicode.org/reports/tr44/ and the other format characters.
func invisible(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// credentials returns what follows scheme, a lower-case name, in the Authorization header. A value that a lenient
// application could still read as that scheme, such as "Bearer" and a tab, is malformed, not absent.
func credentials(r *http.Request, scheme string, fail *keyErrors) (string, error) {
	value, err := fail.single(r.Header, "Authorization")
	if err != nil {
		return "", err
	}
	first, rest, separated := strings.Cut(value, " ")
	if !separated {
		return "", fail.malformed
	}
	if strings.EqualFold(first, scheme) {
		return strings.TrimSpace(rest), nil
	}
	if lower := strings.ToLower(value); strings.HasPrefix(lower, scheme) || strings.Contains(lower, scheme+" ") {
		return "", fail.malformed
	}
	return "", fail.missing
}

// bearerToken reports whether s can be a token: printable ASCII without spaces, and without the separators that a list
// of several credentials would have. RFC 6750 §2.1 allows fewer characters, applications use more.
func bearerToken(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ',' || c == '"' })
}

// control reports whether c is a control character, which RFC 7617 §2 forbids in names.
func control(c rune) bool { return c < ' ' || c == 0x7f }
