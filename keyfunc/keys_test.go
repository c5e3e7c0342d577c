package keyfunc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// sha is what a key keeps of a secret.
func sha(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])[:32]
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
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
	const auth = "Authorization"
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
		{"no secret", APIKey("X-Api-Key"), request("", "Other", "x"), "error"},
		{"an empty secret", APIKey("X-Api-Key"), request("", "X-Api-Key", " "), "error"},
		{"two secrets", APIKey("X-Api-Key"), request("", "X-Api-Key", "a", "X-Api-Key", "b"), "error"},
		{"a secret and nothing", APIKey("X-Api-Key"), request("", "X-Api-Key", "", "X-Api-Key", "b"), "error"},
		{"a secret twice", APIKey("X-Api-Key"), request("", "X-Api-Key", "a", "X-Api-Key", "a "), "key:" + sha("a")},

		{"a token", Bearer, request("", auth, "Bearer t0k.en=="), "bearer:" + sha("t0k.en==")},
		{"the scheme in any case", Bearer, request("", auth, "bEARER  t0k.en== "), "bearer:" + sha("t0k.en==")},
		{"another scheme", Bearer, request("", auth, "Basic t0k"), "error"},
		{"a longer scheme", Bearer, request("", auth, "Bearers t0k"), "error"},
		{"no token", Bearer, request("", auth, "Bearer "), "error"},
		{"no space", Bearer, request("", auth, "Bearer"), "error"},
		{"two words", Bearer, request("", auth, "Bearer a b"), "error"},
		{"two words and a tab", Bearer, request("", auth, "Bearer a\tb"), "error"},
		{"no header", Bearer, request(""), "error"},
		{"two tokens", Bearer, request("", auth, "Bearer a", auth, "Bearer b"), "error"},

		{"a name", BasicUser, request("", auth, basic("ann", "pw")), "basic:ann"},
		{"the password does not matter", BasicUser, request("", auth, basic("ann", "")), "basic:ann"},
		{"no name", BasicUser, request("", auth, basic("", "pw")), "error"},
		{"not Basic", BasicUser, request("", auth, "Bearer x"), "error"},
		{"two names", BasicUser, request("", auth, basic("ann", "pw"), auth, basic("bob", "pw")), "error"},

		{"a cookie", Cookie("sid"), request("", "Cookie", "a=b; sid=x1"), "cookie:sid:" + sha("x1")},
		{"names of cookies have case", Cookie("SID"), request("", "Cookie", "sid=x1"), "error"},
		{"no cookie", Cookie("sid"), request(""), "error"},
		{"an empty cookie", Cookie("sid"), request("", "Cookie", "sid="), "error"},
		{"two cookies", Cookie("sid"), request("", "Cookie", "sid=a; sid=b"), "error"},
		{"two cookies in two lines", Cookie("sid"), request("", "Cookie", "sid=a", "Cookie", "sid=b"), "error"},
		{"a cookie twice", Cookie("sid"), request("", "Cookie", "sid=a; sid=a"), "cookie:sid:" + sha("a")},

		{"a header", Header("X-Tenant"), request("", "X-Tenant", "acme"), "header:x-tenant:acme"},
		{"its name in any case", Header("x-TENANT"), request("", "X-Tenant", " Acme "), "header:x-tenant:Acme"},
		{"a user agent", Header("User-Agent"), request("", "User-Agent", "curl/8 (x|y)"), "header:user-agent:curl/8 (x|y)"},
		{"no header at all", Header("X-Tenant"), &http.Request{}, "error"},
		{"an empty header", Header("X-Tenant"), request("", "X-Tenant", ""), "error"},
		{"two values", Header("X-Tenant"), request("", "X-Tenant", "a", "X-Tenant", "b"), "error"},
		{"the second value is empty", Header("X-Tenant"), request("", "X-Tenant", "a", "X-Tenant", ""), "error"},
		{"a value twice", Header("X-Tenant"), request("", "X-Tenant", "a", "X-Tenant", "a"), "header:x-tenant:a"},

		{"a constant", Const("all"), request(""), "const:all"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, row.fn, row.r, row.want) })
	}
}

// A key func made of a mistake must fail on each request, as its constructor cannot.
func TestInvalidKeyFuncs(t *testing.T) {
	ok := Const("x")
	for name, fn := range map[string]core.KeyFunc{
		"APIKey empty":     APIKey(""),
		"APIKey garbage":   APIKey("X Key"),
		"APIKey Host":      APIKey("host"),
		"Header empty":     Header(""),
		"Header colon":     Header("X-Tenant:"),
		"Header Host":      Header("Host"),
		"Cookie empty":     Cookie(""),
		"Cookie garbage":   Cookie("a=b"),
		"User nil":         User(nil),
		"Const empty":      Const(""),
		"Hash empty":       Hash(nil, ok),
		"Hash nil":         Hash([]byte("s"), nil),
		"Join none":        Join(),
		"Join nil":         Join(ok, nil),
		"First none":       First(),
		"First nil":        First(nil, ok),
		"First of invalid": First(Const(""), ok),
		"Join of invalid":  Join(ok, Header("")),
		"Hash of invalid":  Hash([]byte("s"), Header("")),
	} {
		r := request("203.0.113.9:1", "X-Tenant", "acme", "X Key", "x")
		key, err := fn(r)
		if key != "" || !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrNoKey) {
			t.Errorf("%s: got %q, %v", name, key, err)
		}
	}
}

func TestErrorsNameWhatIsMissing(t *testing.T) {
	ip := ClientIP{}
	for want, fn := range map[string]core.KeyFunc{
		"header X-Tenant: spillgate: no key":                                               Header("X-Tenant"),
		"API key in header X-Api-Key: spillgate: no key":                                   APIKey("X-Api-Key"),
		"cookie sid: spillgate: no key":                                                    Cookie("sid"),
		"bearer token: spillgate: no key":                                                  Bearer,
		"basic auth user: spillgate: no key":                                               BasicUser,
		`remote address "elsewhere": spillgate: no key`:                                    ip.Key,
		"bearer token: spillgate: no key\nremote address \"elsewhere\": spillgate: no key": First(Bearer, RemoteIP),
		"spillgate: invalid: Join: key func 2 is nil":                                      Join(Bearer, nil),
	} {
		if _, err := fn(request("elsewhere")); err == nil || err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
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
	if key, _ := Hash(secret, Header("X-Name"))(request("", "X-Name", "ann")); key == want {
		t.Error("another secret gave the same key")
	}
}

func TestSecretsStayOut(t *testing.T) {
	const secret = "hunter2"
	r := request("", "X-Api-Key", secret, "Authorization", "Bearer "+secret, "Cookie", "sid="+secret)
	for _, fn := range []core.KeyFunc{APIKey("X-Api-Key"), Bearer, Cookie("sid"), Hash([]byte("s"), Header("X-Api-Key"))} {
		if key, err := fn(r); err != nil || strings.Contains(key, secret) {
			t.Errorf("got %q, %v", key, err)
		}
	}
	r = request("", "Authorization", "Basic "+secret, "Authorization", "Bearer "+secret)
	for _, fn := range []core.KeyFunc{Bearer, BasicUser} {
		if _, err := fn(r); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v", err)
		}
	}
}
