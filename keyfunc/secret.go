package keyfunc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"

	"github.com/spillgate/spillgate/core"
)

// hashBits is the number of bits of SHA-256 in a key. With 128 bits, finding two secrets with the same key takes some
// 2^64 attempts.
const hashBits = 128

// APIKey uses the secret in a header, hashed: "key:" and 32 hexadecimal digits, so that the secret never reaches a
// store, a metric or a log. It does not verify the secret: a client that makes one up has its own key.
//
// A request without the header, or with an empty one, fails with ErrNoKey. A request with several lines of it, even
// equal ones, fails with ErrBadKey. Whitespace around the value is ignored. If your application accepts other spellings
// of one secret, such as upper case, use User with the secret that it has verified. For "Authorization: Bearer", use
// Bearer.
//
// The hash is the first 128 bits of SHA-256 over the value, the same in every process. That hides random secrets only:
// if yours can be guessed, wrap APIKey in Hash. APIKey panics if header is not the name of a header, or is Host.
func APIKey(header string) core.KeyFunc {
	if !readable(header) {
		panic(misuse("APIKey needs the name of a header other than Host, got %q", header))
	}
	name := http.CanonicalHeaderKey(header)
	fail := errorsOf("API key in header " + name)
	return func(r *http.Request) (string, error) {
		value, err := fail.single(r.Header, name)
		if err != nil {
			return "", err
		}
		return hashed("key:", value), nil
	}
}

// Hash hides the keys of fn from anybody who can read the store but does not know secret: "hash:" and 32 hexadecimal
// digits, the first 128 bits of HMAC-SHA-256 (RFC 2104). Use it for keys that can be guessed: names, addresses, short
// API keys. Processes that share a store must share the secret, and a new secret restarts all counters. Hash copies the
// secret; 32 random bytes are a good choice.
//
// Hash returns the errors of fn unchanged. Hash panics if secret is empty or fn is nil.
func Hash(secret []byte, fn core.KeyFunc) core.KeyFunc {
	if len(secret) == 0 {
		panic(misuse("Hash needs a secret, got an empty one"))
	}
	checkFuncs("Hash", fn)
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

// digits returns prefix and the first hashBits of sum in hexadecimal.
func digits(prefix string, sum []byte) string {
	var buf [96]byte
	return string(hex.AppendEncode(append(buf[:0], prefix...), sum[:hashBits/8]))
}
