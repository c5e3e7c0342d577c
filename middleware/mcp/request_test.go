package mcplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// strange are names that a path, a router or a pattern could read as another name.
var strange = []string{
	"search", "Search", "search/", "/search", "search//", "a/search", "x/../search", "..", ".", "...", "", "%", "%2F", "search%2F", "%73earch", "se arch",
	"~", "~c2VhcmNo", "{x}", "{x...}", "{$}", "search\x00", "sëarch", "search?x", "search#x", "search;x", "\xff", "search.v1_b-2", "get/../call/search",
}

func TestRoute(t *testing.T) {
	for _, row := range []struct{ method, name, want string }{
		{"tools/call", "search", "POST /tools/call/search"},
		{"tools/call", "search.v1_B-2", "POST /tools/call/search.v1_B-2"},
		{"tools/call", "..", "POST /tools/call/~Li4"},
		{"tools/call", "a/b", "POST /tools/call/~YS9i"},
		{"tools/call", "~YS9i", "POST /tools/call/~fllTOWk"},
		{"tools/call", "", "POST /tools/call/~"},
		{"prompts/get", "greet", "POST /prompts/get/greet"},
		{"resources/read", "file:///readme", "POST /resources/read"},
		{"tools/list", "", "POST /tools/list"},
		{"acme/../search", "", "POST /acme/~Li4/search"},
	} {
		expect.Equal(t, mcplimit.Route(row.method, row.name), row.want, "Route(%q, %q)", row.method, row.name)
	}
	seen := make(map[string]string)
	for _, name := range strange {
		route := mcplimit.Route("tools/call", name)
		other, twice := seen[route]
		expect.True(t, !twice, "%q and %q have the pattern %s", name, other, route)
		seen[route] = name
		if _, p, _ := strings.Cut(route, " "); path.Clean(p) != p || strings.ContainsAny(p, "%{} ") {
			t.Errorf("%q has the pattern %s, which is not clean", name, route)
		}
	}
}

// TestNames calls known and unknown tools with strange names, and checks that each call counts only under the rule of its name.
func TestNames(t *testing.T) {
	for _, known := range []bool{true, false} {
		var rules []core.Rule
		for i, name := range strange {
			rules = append(rules, core.Rule{
				Name: fmt.Sprint("rule", i), Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerHour(5)}, Routes: []string{mcplimit.Route("tools/call", name)},
			})
		}
		l := core.Must(core.New(rules))
		server := newServer(mcplimit.New(l))
		if known {
			// AddTool only logs a name that the specification does not allow.
			for _, name := range strange {
				server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found"}}}, nil
				})
			}
		}
		client := inMemory(t, server)
		for i, name := range strange {
			if name == "\xff" {
				continue // JSON cannot send it
			}
			_, err := call(t.Context(), client, name)
			expect.True(t, (err == nil) == (known || name == "search"), "known %v: %q: %v", known, name, err)
			for j := range strange {
				d, err := l.Take(t.Context(), core.Claim{Rule: fmt.Sprint("rule", j), Key: "const:all", Peek: true})
				want := 5
				if j <= i {
					want = 4
				}
				if err != nil || d.Results[0].Remaining != want && strange[j] != "\xff" {
					t.Fatalf("known %v: after %q, %q has %+v left, %v; want %d", known, name, strange[j], d.Results, err, want)
				}
			}
		}
		for range 4 {
			_, _ = call(t.Context(), client, "..")
		}
		_, err := call(t.Context(), client, "..")
		expect.Elements(t, denialOf(t, err).Rules, []string{fmt.Sprint("rule", slices.Index(strange, ".."))}, "known %v: denied by", known)
	}
}

// TestArguments sends arguments and a name of 1 MiB each, and checks that Cost sees them.
func TestArguments(t *testing.T) {
	const mib = 1 << 20
	var costs []int
	rule := core.PerHour(2 * mib).By(keyfunc.Const("all"))
	rule.Cost = func(r *http.Request) int {
		req, _ := mcplimit.RequestOf(r)
		costs = append(costs, len(req.GetParams().(*mcp.CallToolParamsRaw).Arguments))
		return costs[len(costs)-1]
	}
	rule.Match = func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/tools/call/") }
	l := core.Must(core.New([]core.Rule{rule}))
	client := overHTTP(t, newServer(mcplimit.New(l)), false)("")
	arguments := map[string]string{"text": strings.Repeat("x", mib-len(`{"text":""}`))}
	must.Get(client.CallTool(t.Context(), &mcp.CallToolParams{Name: "search", Arguments: arguments}))(t)
	_, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: strings.Repeat("/", mib), Arguments: map[string]string{}})
	expect.Equal(t, codeOf(err), jsonrpc.CodeInvalidParams, "a tool with a long name: %v (an error that it is unknown)", err)
	expect.Elements(t, costs, []int{mib, len(`{}`)}, "the costs")
}

func TestRequestsThatRulesSee(t *testing.T) {
	var seen []string
	rule := core.PerHour(100).By(keyfunc.Join(mcplimit.User, keyfunc.Pattern, keyfunc.Header("X-Tenant")))
	rule.Match = func(r *http.Request) bool {
		seen = append(seen, r.Method+" "+r.URL.Path)
		if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err == nil || r.URL.Path != r.RequestURI {
			t.Errorf("the body has %d bytes, %v; the URI is %s", n, err, r.RequestURI)
		}
		return r.URL.Path != "/tools/list"
	}
	l := core.Must(core.New([]core.Rule{rule}))
	client := overHTTP(t, newServer(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if extra := req.GetExtra(); extra != nil && extra.Header != nil {
				extra.Header.Set("X-Tenant", "acme") // as a proxy would
			}
			return next(ctx, method, req)
		}
	}, mcplimit.New(l)), false)("ann")
	ctx := t.Context()
	_, listed := client.ListTools(ctx, nil)
	_, called := call(ctx, client, "search")
	_, got := client.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet"})
	_, read := client.ReadResource(ctx, &mcp.ReadResourceParams{URI: "file:///readme"})
	must.Do(t, client.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "x"}))
	if ping := client.Ping(ctx, nil); listed != nil || called != nil || got != nil || read != nil || ping != nil {
		t.Fatal(listed, called, got, read, ping)
	}
	want := []string{"POST /tools/list", "POST /tools/call/search", "POST /prompts/get/greet", "POST /resources/read"}
	expect.Elements(t, seen, want, "the rule sees")
	for _, route := range []string{"/tools/call/search", "/prompts/get/greet", "/resources/read"} {
		r, _ := http.NewRequest(http.MethodPost, route, nil)
		r.Pattern = route
		r.Header.Set("X-Tenant", "acme")
		key := must.Get(keyfunc.Join(keyfunc.User(func(*http.Request) (string, bool) { return "ann", true }), keyfunc.Pattern, keyfunc.Header("X-Tenant"))(r))(t)
		d := must.Get(l.Take(ctx, core.Claim{Key: key, Peek: true}))(t)
		expect.Equal(t, d.Results[0].Remaining, 99, "%s has %+v left", key, d.Results)
	}
}

// TestKeys sends calls with and without a token and a session, under each key func.
func TestKeys(t *testing.T) {
	for _, row := range []struct {
		transport, token string
		key              core.KeyFunc
		want             string // the start of the key; if empty, there must be none
	}{
		{"in memory", "", mcplimit.User, ""},
		{"with sessions", "", mcplimit.User, ""},
		{"with sessions", "ann", mcplimit.User, "user:ann"},
		{"with sessions", "nobody", mcplimit.User, ""}, {"stateless", "", mcplimit.User, ""},
		{"stateless", "ann", mcplimit.User, "user:ann"},
		{"in memory", "", mcplimit.Session, ""},
		{"with sessions", "", mcplimit.Session, "session:"},
		{"stateless", "ann", mcplimit.Session, ""},
	} {
		t.Run(fmt.Sprint(row.transport, row.token, row.want), func(t *testing.T) {
			var got []string
			var errs []error
			server := newServer(mcplimit.New(core.Must(core.New([]core.Rule{core.PerHour(100).By(func(r *http.Request) (string, error) {
				key, err := row.key(r)
				got, errs = append(got, key), append(errs, err)
				return key, err
			})}))))
			var dial func() *mcp.ClientSession
			if row.transport == "in memory" {
				dial = func() *mcp.ClientSession { return inMemory(t, server) }
			} else {
				over := overHTTP(t, server, row.transport == "stateless")
				dial = func() *mcp.ClientSession { return over(row.token) }
			}
			for range 2 {
				s := dial()
				for range 2 {
					_, err := call(t.Context(), s, "search")
					if (err == nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), "The request has no key") {
						t.Errorf("the call fails with %v", err)
					}
					// The status is 400 since protocol 2026-07-28, for which the client of SDK 1.7 ends its connection.
					if err != nil && row.transport == "stateless" {
						s = dial()
					} else if err != nil && codeOf(err) != jsonrpc.CodeInvalidParams {
						t.Errorf("the call fails with code %d", codeOf(err))
					}
				}
			}
			expect.True(t, len(got) == 4 && got[0] == got[1] && got[2] == got[3] && (got[0] == got[2]) == (row.want != "session:"),
				"the keys are %q", got)
			expect.True(t, strings.HasPrefix(got[0], row.want) && (got[0] == "") == (row.want == ""),
				"the keys are %q, %v; want %q", got, errs, row.want)
		})
	}
	r, _ := http.NewRequest(http.MethodPost, "/tools/call/search", nil)
	for _, key := range []core.KeyFunc{mcplimit.User, mcplimit.Session} {
		k, err := key(r)
		expect.True(t, k == "" && err != nil, "without the middleware: %q, %v", k, err)
	}
	req, ok := mcplimit.RequestOf(r)
	expect.True(t, !ok && req == nil, "without the middleware: %v, %v", req, ok)
}

// post posts a message to a stateless server, without a client, and returns the codes of the errors in its responses, or 0 for a result.
func post(t *testing.T, server *mcp.Server, version, body string) (codes []int) {
	t.Helper()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": version, "Mcp-Session-Id": "chosen", "Mcp-Method": "tools/call", "Mcp-Name": "search",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text := w.Body.String()
	if !strings.HasPrefix(text, "[") {
		text = "[" + text + "]"
	}
	var got []struct{ Error struct{ Code int } }
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("protocol %s: status %d, %s, %v", version, w.Code, w.Body, err)
	}
	for _, one := range got {
		codes = append(codes, one.Error.Code)
	}
	return codes
}

// TestNoKeyOnTheWire calls a tool with a session that the client has chosen, in a protocol with sessions and in one without.
func TestNoKeyOnTheWire(t *testing.T) {
	server := newServer(mcplimit.New(core.Must(core.New([]core.Rule{core.PerHour(100).By(mcplimit.Session)}))))
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		got := post(t, server, version, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"`+version+`","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		expect.Elements(t, got, []int{jsonrpc.CodeInvalidParams}, "protocol %s: got the codes", version)
	}
}

// TestBatch sends several calls in one HTTP request: each is charged.
func TestBatch(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerDay(2).By(keyfunc.Const("all"))}))
	var calls []string
	for id := range 5 {
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{}}}`, id))
	}
	got := post(t, newServer(mcplimit.New(l)), "2025-03-26", "["+strings.Join(calls, ",")+"]")
	slices.Sort(got)
	expect.Elements(t, got, []int{-32029, -32029, -32029, 0, 0}, "the codes")
}

// TestNoParameters sends calls whose parameters are null or empty.
func TestNoParameters(t *testing.T) {
	s := newServer(mcplimit.New(core.Must(core.New([]core.Rule{core.PerDay(100).By(keyfunc.Const("all"))}))))
	must.Do(t, mcp.AddReceivingCustomMethod(s, "acme/greet", func(context.Context, *mcp.ServerSession, *mcp.GetPromptParams) (*mcp.GetPromptResult, error) {
		return nil, errors.New("oops")
	}))
	for _, method := range []string{"tools/call", "prompts/get", "resources/read", "tools/list", "acme/greet"} {
		for _, params := range []string{`,"params":null`, `,"params":{}`} {
			post(t, s, "2025-06-18", `{"jsonrpc":"2.0","id":1,"method":"`+method+`"`+params+`}`)
		}
	}
}

// TestAddresses checks that the error of a key func for addresses says where to limit by address.
func TestAddresses(t *testing.T) {
	behindProxy := keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for name, key := range map[string]core.KeyFunc{"RemoteIP": keyfunc.RemoteIP, "ClientIP": behindProxy.Key} {
		var got error
		l := core.Must(core.New([]core.Rule{core.PerHour(100).By(func(r *http.Request) (string, error) {
			k, err := key(r)
			got = err
			return k, err
		})}))
		_, err := call(t.Context(), overHTTP(t, newServer(mcplimit.New(l)), false)(""), "search")
		expect.True(t, codeOf(err) == jsonrpc.CodeInvalidParams && got != nil && strings.Contains(got.Error(), "mount stdlib outside"),
			"%s: the client gets %v, the log %v", name, err, got)
	}
}

// TestOneLimiterAroundTheServerAndInIt mounts one limiter around the HTTP handler and in the server. The SDK calls the tools of a session
// in the context of the HTTP request that opened the session, which carries the decision about that request. Every call must still be
// charged.
func TestOneLimiterAroundTheServerAndInIt(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		l := core.Must(core.New([]core.Rule{
			{Name: "all", Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerDay(100)}},
			{Name: "tools", Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerHour(3)}, Routes: []string{"POST /tools/call/"}},
		}))
		server := newServer(mcplimit.New(l))
		h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
		client := serve(t, stdlib.New(l)(h))("")
		before := remaining(t, l, "all")
		for range 3 {
			must.Get(call(t.Context(), client, "search"))(t)
		}
		_, err := call(t.Context(), client, "search")
		expect.Elements(t, denialOf(t, err).Rules, []string{"tools"}, "stateless %v: denied by", stateless)
		// 4 HTTP requests and 3 calls that were admitted.
		expect.Equal(t, before-remaining(t, l, "all"), 7, "stateless %v: charged for 4 calls", stateless)
	}
}

// remaining returns how many requests remain of a rule with the key "const:all".
func remaining(t testing.TB, l *core.Limiter, rule string) int {
	t.Helper()
	return must.Get(l.Take(t.Context(), core.Claim{Rule: rule, Key: "const:all", Peek: true}))(t).Results[0].Remaining
}
