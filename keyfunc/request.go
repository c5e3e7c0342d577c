package keyfunc

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// User uses the id that get finds in a request, such as the id that your authentication stored in its context:
// "user:42". get must return only verified ids, because nothing else verifies them. It is called for each request,
// concurrently.
//
// If get reports false, or returns an empty id, the request fails with ErrNoKey. User panics if get is nil.
func User(get func(*http.Request) (id string, ok bool)) core.KeyFunc {
	if get == nil {
		panic(misuse("User needs a func, got nil"))
	}
	missing := fmt.Errorf("user: %w", core.ErrNoKey)
	return func(r *http.Request) (string, error) {
		id, ok := get(r)
		if !ok || id == "" {
			return "", missing
		}
		return "user:" + id, nil
	}
}

// Header uses the value of a header, without surrounding whitespace: "header:x-tenant:acme". Clients choose this key
// unless a proxy overwrites the header. For a secret, use APIKey.
//
// A request without the header, or with an empty one, fails with ErrNoKey. A request with several lines of it, even
// equal ones, fails with ErrBadKey. Header panics if name is not the name of a header, or is Host, which net/http keeps
// elsewhere.
func Header(name string) core.KeyFunc {
	if !readable(name) {
		panic(misuse("Header needs the name of a header other than Host, got %q", name))
	}
	prefix := "header:" + strings.ToLower(name) + ":"
	name = http.CanonicalHeaderKey(name)
	fail := errorsOf("header " + name)
	return func(r *http.Request) (string, error) {
		value, err := fail.single(r.Header, name)
		if err != nil {
			return "", err
		}
		return prefix + value, nil
	}
}

// Const gives all requests the same key: Const("all") is "const:all". It panics if key is empty.
func Const(key string) core.KeyFunc {
	if key == "" {
		panic(misuse("Const needs a key, got an empty one"))
	}
	key = "const:" + key
	return func(*http.Request) (string, error) { return key, nil }
}
