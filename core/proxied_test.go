package core_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// TestUntrustedProxyIsLoggedOnce sends requests of two clients through a proxy.
func TestUntrustedProxyIsLoggedOnce(t *testing.T) {
	trusted := func(prefix string) core.KeyFunc {
		return keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix(prefix)}}.Key
	}
	hops := keyfunc.ClientIP{Hops: 2}.Key
	const xff, real = "X-Forwarded-For", "X-Real-IP"
	for why, row := range map[string]struct {
		peer, header, value string
		key                 core.KeyFunc
		want                []string // in the line; none: there must be none
	}{
		"a private peer":     {"10.0.0.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`peer=10.0.0.7 header=X-Forwarded-For`, `{Trusted: []netip.Prefix{netip.MustParsePrefix(\"10.0.0.7/32\")}}.Key; rule.Key = ip`}},
		"172.16/12":          {"172.31.0.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`\"172.31.0.7/32\"`}},
		"192.168/16":         {"192.168.3.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`\"192.168.3.7/32\"`}},
		"loopback":           {"127.0.0.1:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`\"127.0.0.1/32\"`}},
		"loopback, IPv6":     {"[::1]:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`peer=::1`, `\"::1/128\"`}},
		"private, IPv6":      {"[fd00::7]:80", xff, "2001:db8::1", keyfunc.RemoteIP, []string{`\"fd00::7/128\"`}},
		"link-local":         {"[fe80::7%eth0]:80", xff, "2001:db8::1", keyfunc.RemoteIP, []string{`\"fe80::7/128\"`}},
		"a Unix socket":      {"@", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`keyfunc.ClientIP{Unix: true}.Key`}},
		"several elements":   {"10.0.0.7:80", xff, "10.0.0.7, 203.0.113.9", keyfunc.RemoteIP, []string{`\"10.0.0.7/32\"`}},
		"Forwarded":          {"10.0.0.7:80", "Forwarded", "for=203.0.113.9", keyfunc.RemoteIP, []string{`header=Forwarded`, `, Header: \"Forwarded\"}`}},
		"X-Real-IP":          {"10.0.0.7:80", real, "203.0.113.9", keyfunc.RemoteIP, []string{`Header: \"X-Real-Ip\"}`}},
		"one of two keys":    {"10.0.0.7:80", xff, "203.0.113.9", keyfunc.First(keyfunc.Bearer, keyfunc.RemoteIP), []string{`\"10.0.0.7/32\"`}},
		"another proxy":      {"10.0.0.7:80", xff, "203.0.113.9", trusted("192.168.0.0/16"), []string{`\"10.0.0.7/32\"`}},
		"another header":     {"10.0.0.7:80", real, "203.0.113.9", trusted("10.0.0.0/8"), []string{`header=X-Real-Ip`}},
		"no header":          {"10.0.0.7:80", "Via", "1.1 proxy", keyfunc.RemoteIP, nil},
		"a public peer":      {"198.51.100.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, nil},
		"almost private":     {"172.32.0.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, nil},
		"public, IPv6":       {"[2001:db8::7]:80", xff, "203.0.113.9", keyfunc.RemoteIP, nil},
		"a proxy to trust":   {"10.0.0.7:80", xff, "203.0.113.9", trusted("10.0.0.0/8"), nil},
		"a private client":   {"10.0.0.7:80", xff, "10.1.2.3", trusted("10.0.0.0/16"), nil},
		"trusted, IPv6":      {"[fd00::7]:80", xff, "2001:db8::1", trusted("fd00::/8"), nil},
		"the proxy itself":   {"10.0.0.7:80", xff, "10.0.0.7", trusted("10.0.0.0/8"), nil},
		"a neighbor, IPv6":   {"[fd00::7]:80", xff, "fd00::8", trusted("fd00::7/128"), nil},
		"another identity":   {"10.0.0.7:80", xff, "203.0.113.9", keyfunc.Const("all"), nil},
		"too many hops":      {"203.0.113.7:80", xff, "x, 198.51.100.9", hops, []string{`X-Forwarded-For has fewer addresses than ClientIP.Hops" rule=api peer=203.0.113.7`}},
		"too many hops, 6":   {"[2001:db8::7]:80", xff, "x, 198.51.100.9", hops, []string{"ClientIP.Hops", "peer=2001:db8::7"}},
		"a caller by itself": {"10.0.0.7:80", "Via", "1.1 proxy", hops, nil},
		"a garbled list":     {"10.0.0.7:80", xff, "x, 10.0.0.8", trusted("10.0.0.0/8"), nil},
		"an unreadable list": {"10.0.0.7:80", xff, "unknown", trusted("10.0.0.0/8"), nil},
	} {
		t.Run(why, func(t *testing.T) {
			log := new(expect.Buffer)
			l := core.Must(core.New([]core.Rule{{Name: "api", Key: row.key, Limits: []core.Limit{core.PerHour(9)}}}, core.WithLogger(log.Logger())))
			for range 3 {
				r := get("/")
				r.RemoteAddr = row.peer
				r.Header.Set(row.header, row.value)
				must.Get(l.Check(r))(t)
			}
			lines := strings.Count(log.String(), "\n")
			if row.want == nil && lines != 0 || row.want != nil && lines != 1 {
				t.Errorf("%d lines:\n%s", lines, log)
			}
			for _, want := range append(row.want, "level=WARN", "rule=api") {
				expect.True(t, row.want == nil || strings.Contains(log.String(), want), "the log does not say %s:\n%s", want, log)
			}
		})
	}
}

// The configuration that the log suggests must fix the problem.
func TestSuggestedTrustTellsClientsApart(t *testing.T) {
	for _, peer := range []string{"10.0.0.7", "::1", "fe80::7"} {
		addr := netip.MustParseAddr(peer)
		key := keyfunc.ClientIP{Trusted: []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}}.Key
		for _, client := range []string{"203.0.113.9", "203.0.113.10"} {
			r := get("/")
			r.RemoteAddr = netip.AddrPortFrom(addr, 80).String()
			r.Header.Set("X-Forwarded-For", client)
			got, err := key(r)
			expect.True(t, got == "ip:"+client && err == nil, "%s for %s: got %q, %v", peer, client, got, err)
		}
	}
}

func TestNotedProxyAllocatesNothing(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerHour(1).By(keyK)}, core.WithLogger(slog.New(slog.DiscardHandler))))
	check := func(peer, header string) float64 {
		ip := "ip:" + strings.TrimSuffix(peer, ":80")
		rule := core.PerSecond(1_000_000).By(func(*http.Request) (string, error) { return ip, nil })
		must.Do(t, l.SetRules([]core.Rule{rule}))
		r := get("/")
		r.RemoteAddr = peer
		r.Header.Set(header, "203.0.113.9")
		return testing.AllocsPerRun(1000, func() { l.Check(r) })
	}
	for peer, header := range map[string]string{"203.0.113.9:80": "X-Forwarded-For", "10.0.0.7:80": "Via", "10.0.0.8:80": "X-Forwarded-For"} {
		expect.AtMost(t, check(peer, header), 1, "%s with %s: allocations", peer, header)
	}
}

// A known is a router that finds the same pattern for every request.
type known string

// An unknown is a router that cannot find the pattern of any request.
type unknown struct{ error }

func (p known) RoutePattern(*http.Request) (string, error) { return string(p), nil }

func (u unknown) RoutePattern(*http.Request) (string, error) { return "", u }

// TestUnknownRouteIsAnError asks for the route in each callback that runs before the route is known.
func TestUnknownRouteIsAnError(t *testing.T) {
	hint := errors.New("mount it elsewhere")
	pattern := core.RoutePattern
	rule := func(change func(*core.Rule)) []core.Rule {
		r := perHour("login", 5)
		change(&r)
		return []core.Rule{perHour("first", 5), r}
	}
	for why, row := range map[string]struct {
		rules []core.Rule
		opts  []core.Option
		place string
	}{
		"Match": {rules: rule(func(r *core.Rule) { r.Match = func(r *http.Request) bool { return pattern(r) == "/login" } })},
		"Cost":  {rules: rule(func(r *core.Rule) { r.Cost = func(r *http.Request) int { return len(pattern(r)) } })},
		"Tier": {rules: rule(func(r *core.Rule) {
			r.Tier = func(r *http.Request) []core.Limit { pattern(r); return []core.Limit{{}} }
		})},
		"skip": {rules: rule(func(*core.Rule) {}), opts: []core.Option{core.WithSkip(func(r *http.Request) bool { return pattern(r) == "" })}, place: "skip"},
		"Key, in an adapter": {rules: rule(func(r *core.Rule) {
			r.Key = func(r *http.Request) (string, error) { return "route:" + pattern(r), nil }
		})},
	} {
		l := core.Must(core.New(row.rules, append(row.opts, core.WithLogger(slog.New(slog.DiscardHandler)))...))
		place := cmp.Or(row.place, `rule "login"`)
		g, err := l.Guard(t.Context(), get("/login"), unknown{hint})
		expect.True(t, !g.Admitted(), "%s: admitted", why)
		wantError(t, err, core.ErrInvalid, place)
		wantError(t, err, core.ErrInvalid, hint.Error())
		if _, err := l.Guard(t.Context(), get("/login"), known("/login")); err != nil {
			wantError(t, err, core.ErrInvalid, "tier") // the limit that Tier returns
		}
		if why == "Key, in an adapter" {
			continue
		}
		wantError(t, expect.ErrorOf(l.Check(get("/login"))), core.ErrInvalid, "not known here")
		wantError(t, expect.ErrorOf(l.Peek(get("/login"))), core.ErrInvalid, "not known here")
		d, err := l.Peek(get("/login"))
		expect.True(t, err != nil && !d.Allowed, "%s: got %+v, %v", why, d, err)
	}
}

func TestRoutePattern(t *testing.T) {
	var found []string
	byRoute := func(r *http.Request) (string, error) {
		found = append(found, core.RoutePattern(r))
		return "k", nil
	}
	l := core.Must(core.New([]core.Rule{core.PerHour(9).By(byRoute)}))
	other := core.Must(core.New([]core.Rule{core.PerHour(9).By(byRoute)}))
	ask := func(l *core.Limiter, r *http.Request, router core.Router) *http.Request {
		g, err := l.Guard(r.Context(), r, router)
		expect.NoError(t, err, "unexpected error")
		return g.Request()
	}
	plain := get("/users/7")
	plain.Pattern = "GET /users/{id}"
	nested := ask(l, plain, known("/outer/*")) // 1: the adapter's
	ask(other, nested, known("/outer/inner"))  // 2: the innermost adapter's
	ask(other, nested, known(""))              // 3: it knows that there is none
	ask(other, nested, unknown{io.EOF})        // 4: the adapter around it knows its route
	ask(other, nested, nil)                    // 5: as in 4
	ask(l, plain, nil)                         // 6: ServeMux knows its route
	ask(l, plain, unknown{io.EOF})             // 7: as in 6
	ask(l, get("/"), known(""))                // 8: none
	want := []string{"/outer/*", "/outer/inner", "", "/outer/*", "/outer/*", "GET /users/{id}", "GET /users/{id}", ""}
	expect.Elements(t, found, want, "found")
}

func TestRoutePatternOfARequestThatNoLimiterHasSeen(t *testing.T) {
	r := get("/")
	expect.Equal(t, core.RoutePattern(r), "", "core.RoutePattern(r)")
	r.Pattern = "/p"
	expect.Equal(t, core.RoutePattern(r), "/p", "the pattern of the mux")
}

// A callback may read the body of a request, which can be read only once.
func TestCheckLeavesWhatACallbackHasParsed(t *testing.T) {
	rule := perHour("login", 5)
	rule.Match = func(r *http.Request) bool { return r.PostFormValue("user") == "ann" }
	l := core.Must(core.New([]core.Rule{rule}))
	for verb, ask := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
		r := get("/")
		r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader("user=ann"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if d, err := ask(r); err != nil || len(d.Results) != 1 || r.PostForm.Get("user") != "ann" {
			t.Errorf("%s: got %+v, %v; the request has the form %v", verb, d, err, r.PostForm)
		}
	}
}

// routed returns a rule for the requests that patterns name. It is named after them.
func routed(patterns ...string) core.Rule {
	return core.Rule{Name: strings.Join(patterns, " "), Key: constKey, Limits: []core.Limit{core.PerHour(1_000_000)}, Routes: patterns}
}

func applied(t testing.TB, l *core.Limiter, r *http.Request) (names []string) {
	t.Helper()
	for _, res := range must.Get(l.Peek(r))(t).Results {
		names = append(names, res.Rule)
	}
	return names
}

func TestAllRulesThatMatchApplyInOrder(t *testing.T) {
	never := routed("/login")
	never.Name, never.Match = "never", func(*http.Request) bool { return false }
	everywhere := routed()
	everywhere.Name = "everywhere"
	l := core.Must(core.New([]core.Rule{routed("GET /login"), everywhere, never, routed("/"), routed("POST /login"), routed("/login", "/{page}")}))
	for path, want := range map[string][]string{
		"/login":  {"GET /login", "everywhere", "/", "/login /{page}"},
		"//login": {"GET /login", "everywhere", "/", "/login /{page}"},
		"/a/b":    {"everywhere", "/"},
	} {
		expect.Elements(t, applied(t, l, get(path)), want, "%s", path)
	}
}

func TestRouteMistakesNameTheirRule(t *testing.T) {
	err := newErr(routed("POST login", "/a/../b"), routed("/a/{x}"), routed("/{y}/b"), named("n"))
	for _, want := range []string{
		`rule "POST login /a/../b": route "POST login" has no path; did you mean "POST /login"?`,
		`rule "POST login /a/../b": route "/a/../b" can never match`,
		`rule "/{y}/b": route "/{y}/b": pattern "/{y}/b" conflicts with pattern "/a/{x}"`,
	} {
		wantError(t, err, core.ErrInvalid, want)
	}
	expect.Equal(t, strings.Count(err.Error(), "\n")+1, 3, "mistakes:\n%v", err)
}

// guard returns what an adapter without a router passes on and shows.
func guard(l *core.Limiter, r *http.Request) (*http.Request, core.Decision, error) {
	g, err := l.Guard(r.Context(), r, nil)
	return g.Request(), g.Decision(), err
}

func unlimited() *core.Limiter { return core.Must(core.New([]core.Rule{perHour("a", 1_000_000)})) }

// served returns r after f has handled what two nested limiters pass on.
func served(r *http.Request, f func(*http.Request)) *http.Request {
	outer, _ := unlimited().Guard(r.Context(), r, nil)
	defer outer.End()
	inner, _ := unlimited().Guard(outer.Request().Context(), outer.Request(), nil)
	defer inner.End()
	f(inner.Request())
	return r
}

// TestEndTakesOverEachChange changes one field of the request at a time. The caller finds it in its own request, and its own context.
func TestEndTakesOverEachChange(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/users/{id}", func(http.ResponseWriter, *http.Request) {})
	for why, row := range map[string]struct {
		change func(*http.Request)
		seen   func(*http.Request) bool
	}{
		"a route of ServeMux": {func(r *http.Request) { mux.ServeHTTP(httptest.NewRecorder(), r) },
			func(r *http.Request) bool { return r.Pattern == "/users/{id}" && r.PathValue("id") == "7" }},
		"a path value alone": {func(r *http.Request) { r.SetPathValue("id", "8") }, func(r *http.Request) bool { return r.PathValue("id") == "8" }},
		"a parsed form": {func(r *http.Request) { _ = r.ParseForm() },
			func(r *http.Request) bool { return r.Form.Get("a") == "1" && r.PostForm != nil }},
		"a body":              {func(r *http.Request) { r.Body = http.NoBody }, func(r *http.Request) bool { return r.Body == http.NoBody }},
		"a header map":        {func(r *http.Request) { r.Header = http.Header{"A": {"1"}} }, func(r *http.Request) bool { return r.Header.Get("A") == "1" }},
		"a trailer map":       {func(r *http.Request) { r.Trailer = http.Header{"A": {"1"}} }, func(r *http.Request) bool { return r.Trailer.Get("A") == "1" }},
		"an address":          {func(r *http.Request) { r.RemoteAddr = "192.0.2.7:1" }, func(r *http.Request) bool { return r.RemoteAddr == "192.0.2.7:1" }},
		"a host":              {func(r *http.Request) { r.Host = "a.example" }, func(r *http.Request) bool { return r.Host == "a.example" }},
		"a method":            {func(r *http.Request) { r.Method = "PUT" }, func(r *http.Request) bool { return r.Method == "PUT" }},
		"a URL":               {func(r *http.Request) { u := *r.URL; u.Path = "/b"; r.URL = &u }, func(r *http.Request) bool { return r.URL.Path == "/b" }},
		"a target":            {func(r *http.Request) { r.RequestURI = "/b" }, func(r *http.Request) bool { return r.RequestURI == "/b" }},
		"a protocol":          {func(r *http.Request) { r.Proto = "HTTP/3.0" }, func(r *http.Request) bool { return r.Proto == "HTTP/3.0" }},
		"a TLS state":         {func(r *http.Request) { r.TLS = new(tls.ConnectionState) }, func(r *http.Request) bool { return r.TLS != nil }},
		"a closed connection": {func(r *http.Request) { r.Close = true }, func(r *http.Request) bool { return r.Close }},
		"a replaced form":     {func(r *http.Request) { r.PostForm = url.Values{"a": {"1"}} }, func(r *http.Request) bool { return r.PostForm.Get("a") == "1" }},
		"a query":             {func(r *http.Request) { r.Form = url.Values{"a": {"1"}} }, func(r *http.Request) bool { return r.Form.Get("a") == "1" }},
		"a multipart form":    {func(r *http.Request) { r.MultipartForm = new(multipart.Form) }, func(r *http.Request) bool { return r.MultipartForm != nil }},
		"a pattern":           {func(r *http.Request) { r.Pattern = "/p" }, func(r *http.Request) bool { return r.Pattern == "/p" }},
		"a length":            {func(r *http.Request) { r.ContentLength = 7 }, func(r *http.Request) bool { return r.ContentLength == 7 }},
		"a context in place":  {func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), word{}, 1)) }, func(r *http.Request) bool { return r.Context().Value(word{}) == 1 }},
	} {
		r := get("/users/7?a=1")
		r.Method = "POST"
		served(r, row.change)
		expect.True(t, row.seen(r), "%s: the caller does not find it: %+v", why, r)
		_, ok := core.FromContext(r.Context())
		expect.True(t, !ok, "%s: the caller's context carries a decision", why)
	}
}

// TestRequestServedAgainIsChargedAgain serves one request twice. In between, its handler changes it in each way that could keep
// the first decision in its context.
func TestRequestServedAgainIsChargedAgain(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}))
	r := get("/")
	for i, change := range []func(*http.Request){
		func(*http.Request) {},
		func(r *http.Request) { r.Pattern = "/" },
		func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), word{}, 1)) },
		func(*http.Request) {},
	} {
		g, err := l.Guard(r.Context(), r, nil)
		d := g.Decision()
		must.True(t, err == nil && d.Results[0].Remaining == 4-i, "request %d: got %+v, %v; want %d left", i+1, d, err, 4-i)
		change(g.Request())
		g.End()
	}
}

// TestEndOfUnchangedRequestWritesNothing serves one request in several goroutines. The race detector reports a write.
func TestEndOfUnchangedRequestWritesNothing(t *testing.T) {
	l, r := unlimited(), get("/")
	r.Body = io.NopCloser(bytes.NewReader(nil))
	done := make(chan bool)
	for range 4 {
		go func() {
			defer func() { done <- true }()
			for range 100 {
				g, _ := l.Guard(r.Context(), r, nil)
				g.End()
			}
		}()
	}
	for range 4 {
		<-done
	}
}

// uncomparable is a body that panics when it is compared.
type uncomparable []io.Reader

func (uncomparable) Read([]byte) (int, error) { return 0, io.EOF }
func (uncomparable) Close() error             { return nil }

func TestEndComparesAnyBody(t *testing.T) {
	r := get("/")
	r.Body = uncomparable{}
	served(r, func(r *http.Request) { r.Body = http.NoBody })
	expect.True(t, r.Body == http.NoBody, "the caller has the body %#v", r.Body)
	r.Body = uncomparable{}
	served(r, func(*http.Request) {}) // does not panic
}

// TestTrailersOfServerReachTheCopy does what the body of a chunked HTTP/1 request does at its end: it adds trailers to the
// request of the server.
func TestTrailersOfServerReachTheCopy(t *testing.T) {
	r := get("/")
	r.TransferEncoding = []string{"chunked"}
	served(r, func(inner *http.Request) {
		if r.Trailer == nil {
			r.Trailer = make(http.Header)
		}
		r.Trailer.Set("X-Sum", "42")
		expect.Equal(t, inner.Trailer.Get("X-Sum"), "42", "the handler finds no trailer")
	})
	plain := get("/")
	served(plain, func(*http.Request) {})
	expect.True(t, plain.Trailer == nil, "a request without a chunked body has trailers")
}
