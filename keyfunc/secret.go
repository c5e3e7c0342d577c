package keyfunc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// hashBits is how much of SHA-256 a key keeps: enough that nobody finds two secrets with one key.
const hashBits = 128

var errNoBearer = fmt.Errorf("bearer token: %w", core.ErrNoKey)

// APIKey is the secret that a header carries, hashed: "key:" and 32 hexadecimal digits, so that the secret never gets
// to a store, a metric or a log. It does not verify the secret: a client that makes one up has a key of its own.
//
// A request without the header, or with several lines of it that differ, has no key. The hash is the first 128 bits of
// SHA-256 over the value, the same in every process, which hides random secrets only: wrap it in Hash if yours can be
// guessed. If header is not the name of a header, the key func fails with ErrInvalid.
func APIKey(header string) core.KeyFunc {
	if !readable(header) {
		return failing(invalid("APIKey needs the name of a header other than Host, got %q", header))
	}
	name := http.CanonicalHeaderKey(header)
	missing := fmt.Errorf("API key in header %s: %w", name, core.ErrNoKey)
	return func(r *http.Request) (string, error) {
		value := only(r.Header, name)
		if value == "" {
			return "", missing
		}
		return hashed("key:", value), nil
	}
}

// Bearer is the token in "Authorization: Bearer", hashed as by APIKey: "bearer:" and 32 hexadecimal digits. The scheme
// is case-insensitive; the token is not verified. A request without one, or with several lines that differ, has no key.
func Bearer(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(only(r.Header, "Authorization"), " ")
	token = trim(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t") {
		return "", errNoBearer
	}
	return hashed("bearer:", token), nil
}

// Cookie is the value of a cookie, hashed as by APIKey: "cookie:sid:" and 32 hexadecimal digits. The cookie is not
// verified: a client that drops it has no key, and one that makes up values has as many as it likes.
//
// A request without the cookie, or with several of the name that differ, has no key. If name cannot be that of a
// cookie, the key func fails with ErrInvalid.
func Cookie(name string) core.KeyFunc {
	if !token(name) {
		return failing(invalid("Cookie needs the name of a cookie, got %q", name))
	}
	missing := fmt.Errorf("cookie %s: %w", name, core.ErrNoKey)
	prefix := "cookie:" + name + ":"
	return func(r *http.Request) (string, error) {
		value := ""
		for i, c := range r.CookiesNamed(name) {
			if i > 0 && c.Value != value {
				return "", missing
			}
			value = c.Value
		}
		if value == "" {
			return "", missing
		}
		return hashed(prefix, value), nil
	}
}

// Hash hides the keys of fn from whoever can read the store but does not know secret: "hash:" and 32 hexadecimal
// digits, the first 128 bits of HMAC-SHA-256 (RFC 2104). Use it for what can be guessed: names, addresses, short API
// keys. Processes that share a store must share the secret, and a new secret starts all keys anew. The secret is
// copied; 32 random bytes are a good one.
//
// An error of fn is its error. With an empty secret or a nil fn it fails with ErrInvalid.
func Hash(secret []byte, fn core.KeyFunc) core.KeyFunc {
	switch {
	case len(secret) == 0:
		return failing(invalid("Hash needs a secret"))
	case fn == nil:
		return failing(invalid("Hash needs a key func, got nil"))
	}
	secret = slices.Clone(secret)
	return func(r *http.Request) (string, error) {
		key, err := call(fn, r)
		if err != nil {
			return "", err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key))
		return digits("hash:", mac.Sum(nil)), nil
	}
}

// hashed returns prefix and the hash of secret.
func hashed(prefix, secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return digits(prefix, sum[:])
}

// digits returns prefix and what a key keeps of sum.
func digits(prefix string, sum []byte) string {
	var buf [96]byte
	return string(hex.AppendEncode(append(buf[:0], prefix...), sum[:hashBits/8]))
}
