package keyfunc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func sha(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])[:32]
}

func TestKeys(t *testing.T) {
	type id struct{}
	user := User(func(r *http.Request) (string, bool) {
		s, ok := r.Context().Value(id{}).(string)
		return s, ok
	})
	as := func(name string) *http.Request {
		return request("").WithContext(context.WithValue(context.Background(), id{}, name))
	}
	for _, row := range []struct {
		why  string
		fn   core.KeyFunc
		r    *http.Request
		want string
	}{
		{"a user", user, as("42"), "user:42"},
		{"a user named like an address", user, as("127.0.0.1"), "user:127.0.0.1"},
		{"no user", user, request(""), "error"},
		{"an empty user", user, as(""), "error"},
		{"a user that get denies", User(func(*http.Request) (string, bool) { return "42", false }), request(""), "error"},

		{"a secret", APIKey("x-api-key"), request("", "X-Api-Key", "s3cret"), "key:" + sha("s3cret")},
		{"the header does not matter", APIKey("Other"), request("", "Other", " s3cret "), "key:" + sha("s3cret")},
		{"Unicode space that applications trim too", APIKey("Other"), request("", "Other", "\u00a0s3cret\u2003"), "key:" + sha("s3cret")},
		{"no secret", APIKey("X-Api-Key"), request("", "Other", "x"), "error"},
		{"an empty secret", APIKey("X-Api-Key"), request("", "X-Api-Key", ""), "error"},
		{"a blank secret", APIKey("X-Api-Key"), request("", "X-Api-Key", " \t\u00a0"), "error"},
		{"two secrets", APIKey("X-Api-Key"), request("", "X-Api-Key", "a", "X-Api-Key", "b"), "bad"},
		{"nothing and a secret", APIKey("X-Api-Key"), request("", "X-Api-Key", "", "X-Api-Key", "b"), "bad"},
		{"a secret and nothing", APIKey("X-Api-Key"), request("", "X-Api-Key", "a", "X-Api-Key", ""), "bad"},
		{"a secret twice", APIKey("X-Api-Key"), request("", "X-Api-Key", "a", "X-Api-Key", "a"), "bad"},

		{"a header", Header("X-Tenant"), request("", "X-Tenant", "acme"), "header:x-tenant:acme"},
		{"its name in any case", Header("x-TENANT"), request("", "X-Tenant", " Acme "), "header:x-tenant:Acme"},
		{"a user agent", Header("User-Agent"), request("", "User-Agent", "curl/8 (x|y)"), "header:user-agent:curl/8 (x|y)"},
		{"no header at all", Header("X-Tenant"), &http.Request{}, "error"},
		{"an empty header", Header("X-Tenant"), request("", "X-Tenant", ""), "error"},
		{"two values", Header("X-Tenant"), request("", "X-Tenant", "a", "X-Tenant", "b"), "bad"},
		{"the second value is empty", Header("X-Tenant"), request("", "X-Tenant", "a", "X-Tenant", ""), "bad"},
		{"two empty values", Header("X-Tenant"), request("", "X-Tenant", "", "X-Tenant", ""), "bad"},
		{"a value twice", Header("X-Tenant"), request("", "X-Tenant", "a", "X-Tenant", "a"), "bad"},

		{"a constant", Const("all"), request(""), "const:all"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, row.fn, row.r, row.want) })
	}
}

func TestConstructorsPanicOnMistakes(t *testing.T) {
	ok := Const("x")
	for want, construct := range map[string]func() core.KeyFunc{
		`APIKey needs the name of a header other than Host, got ""`:          func() core.KeyFunc { return APIKey("") },
		`APIKey needs the name of a header other than Host, got "X Api Key"`: func() core.KeyFunc { return APIKey("X Api Key") },
		`APIKey needs the name of a header other than Host, got "host"`:      func() core.KeyFunc { return APIKey("host") },
		`Header needs the name of a header other than Host, got ""`:          func() core.KeyFunc { return Header("") },
		`Header needs the name of a header other than Host, got "X-Tenant:"`: func() core.KeyFunc { return Header("X-Tenant:") },
		`Header needs the name of a header other than Host, got "Host"`:      func() core.KeyFunc { return Header("Host") },
		`Cookie needs the name of a cookie, got ""`:                          func() core.KeyFunc { return Cookie("") },
		`Cookie needs the name of a cookie, got "a=b"`:                       func() core.KeyFunc { return Cookie("a=b") },
		"User needs a func, got nil":                                         func() core.KeyFunc { return User(nil) },
		"Const needs a key, got an empty one":                                func() core.KeyFunc { return Const("") },
		"Hash needs a secret, got an empty one":                              func() core.KeyFunc { return Hash(nil, ok) },
		"Hash: key func 1 of 1 is nil":                                       func() core.KeyFunc { return Hash([]byte("s"), nil) },
		"Join needs at least one key func":                                   func() core.KeyFunc { return Join() },
		"Join: key func 2 of 2 is nil":                                       func() core.KeyFunc { return Join(ok, nil) },
		"First needs at least one key func":                                  func() core.KeyFunc { return First() },
		"First: key func 1 of 2 is nil":                                      func() core.KeyFunc { return First(nil, ok) },
	} {
		t.Run(want, func(t *testing.T) {
			err := expect.PanicOf(func() { construct() })
			expect.True(t, errors.Is(err, core.ErrInvalid) && err.Error() == "spillgate: invalid: "+want, "got %v", err)
		})
	}
}

func TestErrorsNameTheField(t *testing.T) {
	ip := ClientIP{}
	twice := request("elsewhere", "X-Tenant", "a", "X-Tenant", "b", "X-Api-Key", "a", "X-Api-Key", "b",
		"Cookie", "sid=a; sid=b; bad=\"", "Authorization", "Bearer a", "Authorization", "Bearer b")
	for _, row := range []struct {
		fn   core.KeyFunc
		r    *http.Request
		want string
	}{
		{Header("X-Tenant"), request(""), "header X-Tenant: no key"},
		{Header("x-tenant"), twice, "header X-Tenant: bad key: sent more than once"},
		{APIKey("x-api-key"), request(""), "API key in header X-Api-Key: no key"},
		{APIKey("X-Api-Key"), twice, "API key in header X-Api-Key: bad key: sent more than once"},
		{Cookie("sid"), request(""), "cookie sid: no key"},
		{Cookie("sid"), twice, "cookie sid: bad key: sent more than once"},
		{Cookie("bad"), twice, "cookie bad: bad key: malformed"},
		{Bearer, request(""), "bearer token: no key"},
		{Bearer, twice, "bearer token: bad key: sent more than once"},
		{Bearer, request("", auth, "Bearer"), "bearer token: bad key: malformed"},
		{BasicUser, request(""), "basic auth user: no key"},
		{BasicUser, request("", auth, "Basic ?"), "basic auth user: bad key: malformed"},
		{ip.Key, request("elsewhere"), `remote address "elsewhere": no key`},
		{First(Bearer, RemoteIP), request("x"), "bearer token: no key\nremote address \"x\": no key"},
	} {
		_, err := row.fn(row.r)
		expect.True(t, err != nil && err.Error() == row.want, "got %q, want %q", err, row.want)
	}
}

func TestHash(t *testing.T) {
	secret := []byte("0123456789abcdef")
	fn := Hash(secret, Header("X-Name"))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("header:x-name:ann"))
	want := "hash:" + hex.EncodeToString(mac.Sum(nil))[:32]
	secret[0] = 'x'
	checkKey(t, fn, request("", "X-Name", "ann"), want)
	checkKey(t, fn, request(""), "error")
	checkKey(t, Hash(secret, func(*http.Request) (string, error) { return "", nil }), request(""), "error")
	key, _ := Hash(secret, Header("X-Name"))(request("", "X-Name", "ann"))
	expect.NotEqual(t, key, want, "another secret gave the same key")
}

func TestSecretsAreNotInKeysOrErrors(t *testing.T) {
	const secret = "hunter2"
	r := request("", "X-Api-Key", secret, "Authorization", "Bearer "+secret, "Cookie", "sid="+secret)
	for _, fn := range []core.KeyFunc{APIKey("X-Api-Key"), Bearer, Cookie("sid"), Hash([]byte("s"), Header("X-Api-Key"))} {
		key := must.Get(fn(r))(t)
		expect.True(t, !strings.Contains(key, secret), "key %q", key)
	}
	twice := request("", "X-Api-Key", secret, "X-Api-Key", secret, auth, "Basic "+secret, auth, "Bearer "+secret,
		"Cookie", "sid="+secret+"; sid="+secret)
	malformed := request("", auth, secret, "Cookie", "sid=\""+secret)
	for _, r := range []*http.Request{twice, malformed} {
		for _, fn := range []core.KeyFunc{APIKey("X-Api-Key"), Bearer, BasicUser, Cookie("sid")} {
			_, err := fn(r)
			expect.True(t, err != nil && !strings.Contains(err.Error(), secret), "got %v", err)
		}
	}
}
