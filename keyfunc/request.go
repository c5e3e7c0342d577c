package keyfunc

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
)

var errNoBasicUser = fmt.Errorf("basic auth user: %w", core.ErrNoKey)

// User is the id that get finds in a request, such as the one your authentication put in its context: "user:42". It can
// be trusted as far as get can, so get must return only what was verified. It is called at each request, concurrently.
//
// A request for which get reports false, or an empty id, has no key. If get is nil, the key func fails with ErrInvalid.
func User(get func(*http.Request) (id string, ok bool)) core.KeyFunc {
	if get == nil {
		return failing(invalid("User needs a func, got nil"))
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

// Header is the value of a header as it stands: "header:x-tenant:acme". Clients choose it, unless a proxy overwrites
// the header. For a secret use APIKey.
//
// A request without the header, or with several lines of it that differ, has no key. If name is not the name of a
// header, or is Host, which net/http keeps elsewhere, the key func fails with ErrInvalid.
func Header(name string) core.KeyFunc {
	if !readable(name) {
		return failing(invalid("Header needs the name of a header other than Host, got %q", name))
	}
	missing := fmt.Errorf("header %s: %w", name, core.ErrNoKey)
	prefix := "header:" + strings.ToLower(name) + ":"
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		value := only(r.Header, name)
		if value == "" {
			return "", missing
		}
		return prefix + value, nil
	}
}

// BasicUser is the user name of HTTP Basic authentication (RFC 7617): "basic:ann". The password is not verified, so
// until your handler does, clients choose this key. A request without such a name, or with several Authorization lines
// that differ, has no key.
func BasicUser(r *http.Request) (string, error) {
	name, _, ok := r.BasicAuth()
	if !ok || name == "" || only(r.Header, "Authorization") == "" {
		return "", errNoBasicUser
	}
	return "basic:" + name, nil
}

// Const puts all requests under one key: Const("all") is "const:all". If key is empty, the key func fails with
// ErrInvalid.
func Const(key string) core.KeyFunc {
	if key == "" {
		return failing(invalid("Const needs a key"))
	}
	key = "const:" + key
	return func(*http.Request) (string, error) { return key, nil }
}
