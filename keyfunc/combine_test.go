package keyfunc

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestJoin(t *testing.T) {
	key := func(s string) core.KeyFunc { return func(*http.Request) (string, error) { return s, nil } }
	for _, row := range []struct {
		why  string
		fn   core.KeyFunc
		want string
	}{
		{"readable", Join(key("user:42"), key("route:/users/{id}")), "join:user:42|route:/users/{id}"},
		{"one element", Join(key("user:42")), "join:user:42"},
		{"the separator in an element", Join(key("user:a|b"), key("c")), `join:user:a\|b|c`},
		{"the escape in an element", Join(key(`user:a\`), key(`|c`)), `join:user:a\\|\|c`},
		{"nested", Join(Join(key("a"), key("b")), key("c")), `join:join:a\|b|c`},
		{"all elements are required", Join(key("a"), Header("X")), "error"},
		{"also the first", Join(Header("X"), key("a")), "error"},
		{"an empty element is none", Join(key("a"), key("")), "error"},
		{"a bad element", Join(key("a"), fails(core.ErrBadKey)), "bad"},
		{"a bad element behind one that is missing", Join(Header("X"), fails(core.ErrBadKey)), "bad"},
		{"an invalid element behind one that is missing", Join(Header("X"), fails(core.ErrInvalid)), "invalid"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, row.fn, request(""), row.want) })
	}
}

func fails(err error) core.KeyFunc {
	return func(*http.Request) (string, error) { return "", fmt.Errorf("a custom func: %w", err) }
}

// Changing the list after construction has no effect, and no func is called after an error other than ErrNoKey.
func TestJoinAndFirstStopAtError(t *testing.T) {
	broken := errors.New("directory is down")
	fns := []core.KeyFunc{func(*http.Request) (string, error) { return "half a key", broken }, panics}
	join, first := Join(fns...), First(fns...)
	fns[0] = panics
	for _, fn := range []core.KeyFunc{join, first} {
		key, err := fn(request(""))
		expect.True(t, key == "" && err == broken, "got %q, %v", key, err)
	}
}

func panics(*http.Request) (string, error) { panic("must not be called") }

func TestFirst(t *testing.T) {
	empty := func(*http.Request) (string, error) { return "", nil }
	for _, row := range []struct {
		why  string
		fn   core.KeyFunc
		want string
	}{
		{"the first that finds one", First(Header("A"), Header("B"), panics), "header:b:2"},
		{"no further than the first", First(Header("B"), panics), "header:b:2"},
		{"an empty key counts as missing", First(empty, Header("B")), "header:b:2"},
		{"none", First(Header("A"), Bearer, BasicUser, Cookie("x"), Header("C")), "error"},
		{"only an empty key", First(empty), "error"},
		{"a bad key is not passed over", First(fails(core.ErrBadKey), panics), "bad"},
		{"nor behind one that is missing", First(Header("A"), fails(core.ErrBadKey), panics), "bad"},
		{"nor in a nested First", First(First(Header("A"), fails(core.ErrBadKey)), panics), "bad"},
		{"nor in a Join", First(Join(Header("A"), fails(core.ErrBadKey)), panics), "bad"},
		{"nor in a Hash", First(Hash([]byte("s"), fails(core.ErrBadKey)), panics), "bad"},
		{"nor an invalid one", First(fails(core.ErrInvalid), panics), "invalid"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, row.fn, request("", "B", "2"), row.want) })
	}
}

// A custom func may wrap two errors. ErrNoKey must not hide the more serious one.
func TestFirstSkipsOnlyErrNoKey(t *testing.T) {
	for _, worse := range []error{errors.New("no database"), errors.Join(core.ErrNoKey, core.ErrBadKey), errors.Join(core.ErrNoKey, core.ErrInvalid)} {
		key, err := First(fails(worse), panics)(request(""))
		expect.True(t, key == "" && errors.Is(err, worse), "got %q, %v, want %v", key, err, worse)
	}
}

// The error about an empty key has the same text whether the key func stands alone or is combined.
func TestEmptyKeyHasOneErrorText(t *testing.T) {
	empty := func(*http.Request) (string, error) { return "", nil }
	for why, key := range map[string]core.KeyFunc{"alone": empty, "First": First(empty), "Join": Join(empty, empty), "Hash": Hash([]byte("0123456789abcdef"), empty)} {
		_, err := core.Must(core.New([]core.Rule{core.PerDay(1).By(key)})).Check(&http.Request{})
		want := `spillgate: rule "default": the key func returned an empty key: no key`
		expect.True(t, errors.Is(err, core.ErrNoKey) && err.Error() == want, "%s: got %v, want %s", why, err, want)
	}
}

// Each row is one Cookie line, or several separated by a newline.
func TestCookie(t *testing.T) {
	value := "cookie:sid:" + sha("x1")
	for _, row := range []struct{ why, lines, want string }{
		{"one of several", "a=b; sid=x1; c=d", value},
		{"quotes, which net/http strips", `sid="x1"`, value},
		{"spaces around the name", "a=b;  sid =x1", value},
		{"the name as a value", "a=sid; sid=x1", value},
		{"names have case", "SID=x1", "error"},
		{"a longer name", "xsid=x1; sidx=x1", "error"},
		{"none", "a=b", "error"},
		{"an empty line", "", "error"},
		{"an empty value", "sid=", "error"},
		{"an empty value in quotes", `sid=""`, "error"},
		{"no value", "sid", "error"},

		{"two values", "sid=a; sid=b", "bad"},
		{"two values in two lines", "sid=a\nsid=b", "bad"},
		{"one value twice", "sid=a; sid=a", "bad"},
		{"an empty value first", "sid=; sid=a", "bad"},
		{"an empty value last", "sid=a; sid", "bad"},
		{"the same value in quotes", `sid=a; sid="a"`, "bad"},
		{"a malformed value first, which net/http skips", `sid=a"b; sid=x1`, "bad"},
		{"a malformed value last", "sid=x1; sid=a\\b", "bad"},
		{"a malformed value alone", `sid=a"b`, "bad"},
		{"more cookies than net/http reads", strings.Repeat("a=b; ", 3000) + "sid=x1", "bad"},
	} {
		t.Run(row.why, func(t *testing.T) {
			r := request("203.0.113.9:1")
			r.Header["Cookie"] = strings.Split(row.lines, "\n")
			checkKey(t, Cookie("sid"), r, row.want)
			if row.want == "error" {
				row.want = "ip:203.0.113.9"
			}
			checkKey(t, First(Cookie("sid"), RemoteIP), r, row.want)
		})
	}
	checkKey(t, Cookie("sid"), request(""), "error")
}

// FuzzCookie checks that each cookie that net/http finds is keyed by its value or rejected, and never counts as missing.
func FuzzCookie(f *testing.F) {
	for _, s := range []string{"sid=a", "sid=a; sid=b", `sid="a"`, "sid =a", "\vsid=a", "a;sid;sid=", ";;=;sid=\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r := request("", "Cookie", line)
		served := r.CookiesNamed("sid")
		switch key, err := Cookie("sid")(r); {
		case err == nil && (len(served) != 1 || key != "cookie:sid:"+sha(served[0].Value)):
			t.Fatalf("line %q: got %q, net/http has %v", line, key, served)
		case len(served) > 1 || len(served) == 1 && served[0].Value != "":
			must.True(t, err == nil || !absent(err), "line %q: got %v, net/http has %v", line, err, served)
		}
	})
}

func TestMethod(t *testing.T) {
	for method, want := range map[string]string{
		"": "GET", "GET": "GET", "HEAD": "GET", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE",
		"CONNECT": "CONNECT", "OPTIONS": "OPTIONS", "TRACE": "TRACE",
		"get": "OTHER", "BREW": "OTHER", "PROPFIND": "OTHER", "GET ": "OTHER",
	} {
		r := &http.Request{Method: method, Pattern: "/x"}
		checkKey(t, Method, r, "method:"+want)
		checkKey(t, Pattern, r, "route:/x")
		checkKey(t, Join(Method, Pattern), r, "join:method:"+want+"|route:/x")
	}
}

func TestPattern(t *testing.T) {
	for _, row := range []struct{ why, pattern, want string }{
		{"a path", "/users/{id}", "route:/users/{id}"},
		{"a method", "GET /users/{id}", "route:/users/{id}"},
		{"another method", "HEAD /users/{id}", "route:/users/{id}"},
		{"a custom method", "PURGE /users/{id}", "route:/users/{id}"},
		{"much space", "GET \t /users/{id}", "route:/users/{id}"},
		{"a host", "example.com/users/{id}", "route:example.com/users/{id}"},
		{"a method and a host", "GET example.com/{x...}", "route:example.com/{x...}"},
		{"a space within a path is not behind a method", "/a b", "route:/a b"},
		{"gin", "/users/:id/*rest", "route:/users/:id/*rest"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, Pattern, &http.Request{Method: "GET", Pattern: row.pattern}, row.want) })
	}
}

// found is a router that finds the same pattern for every request.
type found string

func (p found) RoutePattern(*http.Request) (string, error) { return string(p), nil }

// TestPatternWithoutRoute checks that a request that matches no route has another result than one whose route is unknown.
func TestPatternWithoutRoute(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerMinute(1).By(Pattern)}))
	r := httptest.NewRequest("GET", "/nowhere", nil)
	g := must.Get(l.Guard(r.Context(), r, found("")))(t)
	checkKey(t, Pattern, g.Request(), "route:(none)")
	key, err := Pattern(r)
	expect.True(t, errors.Is(err, core.ErrInvalid) && key == "", "without a router: %q, %v, want ErrInvalid", key, err)
	expect.ErrorIs(t, expect.ErrorOf(l.Check(r)), core.ErrInvalid, "a limiter without a router (ErrInvalid)")
}

// An adapter in front of the router knows the pattern before r.Pattern is set.
func TestPatternOfAdapter(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerMinute(1).By(Pattern)}))
	r := httptest.NewRequest("POST", "/users/42", nil)
	g, err := l.Guard(r.Context(), r, found("/users/{id}"))
	must.True(t, err == nil && g.Admitted(), "%v, %v", g.Decision(), err)
	checkKey(t, Pattern, g.Request(), "route:/users/{id}")
}
