package mcplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
)

// stdio is the environment variable that makes the test binary a server on its standard input and output.
const stdio = "SPILLGATE_TEST_STDIO"

func TestMain(m *testing.M) {
	if os.Getenv(stdio) != "" {
		if err := newServer(perTool()).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// perTool limits the tool search, for all clients together.
func perTool() mcp.Middleware {
	return mcplimit.New(core.Must(core.New([]core.Rule{{
		Name: "search", Key: keyfunc.Const("all"), Limits: []core.Limit{core.Every(1, 2*time.Second)}, Routes: []string{mcplimit.Route("tools/call", "search")},
	}})))
}

type query struct {
	Text string `json:"text,omitempty"`
}

// newServer returns a server with two tools, a prompt and a resource.
func newServer(limit ...mcp.Middleware) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	for _, name := range []string{"search", "fetch"} {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, query) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found"}}}, nil, nil
		})
	}
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Description: "hello"}, nil
	})
	s.AddResource(&mcp.Resource{Name: "readme", URI: "file:///readme"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "file:///readme", Text: "hello"}}}, nil
	})
	s.AddReceivingMiddleware(limit...)
	return s
}

func connect(t testing.TB, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	session := must.Get(mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), transport, nil))(t)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func inMemory(t testing.TB, s *mcp.Server) *mcp.ClientSession {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	server := must.Get(s.Connect(t.Context(), there, nil))(t)
	t.Cleanup(func() { _ = server.Close() })
	return connect(t, here)
}

// A bearer sends itself as the token, unless it is empty.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func overHTTP(t testing.TB, s *mcp.Server, stateless bool) (dial func(token string) *mcp.ClientSession) {
	t.Helper()
	options := mcp.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: true}
	return serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &options))
}

// serve serves h and returns a func that connects a client with a token, which is the name of its user. Clients without a token are
// served too, and the token "nobody" is of no user.
func serve(t testing.TB, h http.Handler) (dial func(token string) *mcp.ClientSession) {
	t.Helper()
	verified := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: strings.TrimPrefix(token, "nobody"), Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)(h)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			h.ServeHTTP(w, r)
			return
		}
		verified.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return func(token string) *mcp.ClientSession {
		return connect(t, &mcp.StreamableClientTransport{
			Endpoint: server.URL, HTTPClient: &http.Client{Transport: bearer(token)}, DisableStandaloneSSE: true, MaxRetries: -1,
		})
	}
}

// call calls a tool and returns its text and its error.
func call(ctx context.Context, s *mcp.ClientSession, tool string) (string, error) {
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
	if err != nil {
		return "", err
	}
	text, _ := res.Content[0].(*mcp.TextContent)
	return text.Text, nil
}

// A denial is the data of a JSON-RPC error about a denied call.
type denial struct {
	RetryAfterSeconds *int
	Rules             []string
}

// denialOf returns the denial in err, whose code must be the code of denials.
func denialOf(t testing.TB, err error) (d denial) {
	t.Helper()
	var wire *jsonrpc.Error
	must.True(t, errors.As(err, &wire) && wire.Code == -32029, "got the error %v, want one with code -32029", err)
	if err := json.Unmarshal(wire.Data, &d); err != nil {
		t.Fatalf("%v in the data %s", err, wire.Data)
	}
	return d
}

func codeOf(err error) int64 {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire.Code
	}
	return 0
}

// transports are the ways in which the SDK's client reaches a server.
var transports = map[string]func(*testing.T, *mcp.Server) *mcp.ClientSession{
	"in memory":     func(t *testing.T, s *mcp.Server) *mcp.ClientSession { return inMemory(t, s) },
	"with sessions": func(t *testing.T, s *mcp.Server) *mcp.ClientSession { return overHTTP(t, s, false)("") },
	"stateless":     func(t *testing.T, s *mcp.Server) *mcp.ClientSession { return overHTTP(t, s, true)("") },
	"stdio": func(t *testing.T, _ *mcp.Server) *mcp.ClientSession { // to a server of its own, with the limit perTool
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), stdio+"=1")
		return connect(t, &mcp.CommandTransport{Command: cmd})
	},
}

// TestTransports calls a tool until it is denied, waits as long as the error says, and calls it once more.
func TestTransports(t *testing.T) {
	for name, dial := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dial(t, newServer(perTool()))
			var err error
			for range 100 {
				if _, err = call(t.Context(), s, "search"); err != nil {
					break
				}
			}
			d := denialOf(t, err)
			must.True(t, d.RetryAfterSeconds != nil && *d.RetryAfterSeconds >= 1 && *d.RetryAfterSeconds <= 2 && slices.Equal(d.Rules, []string{"search"}),
				"the data are %+v, want a wait of up to 2 s for the rule search", d)
			expect.Equal(t, must.Get(call(t.Context(), s, "fetch"))(t), "found", "another tool")
			time.Sleep(time.Duration(*d.RetryAfterSeconds) * time.Second)
			expect.Equal(t, must.Get(call(t.Context(), s, "search"))(t), "found", "after the wait")
		})
	}
}

// TestDenials checks the data of denials, and that a denied call costs the other limits nothing.
func TestDenials(t *testing.T) {
	rule := func(name string, limits ...core.Limit) core.Rule {
		return core.Rule{Name: name, Key: keyfunc.Const("all"), Limits: limits, Routes: []string{"POST /tools/call/"}}
	}
	dry := rule("dry", core.PerDay(0))
	dry.DryRun = true
	for why, row := range map[string]struct {
		rules []core.Rule
		want  []string
		never bool
	}{
		"a dry run beside":   {[]core.Rule{dry, rule("tool", core.PerDay(1))}, []string{"tool"}, false},
		"two limits":         {[]core.Rule{rule("tool", core.PerDay(1), core.PerHour(1))}, []string{"tool"}, false},
		"two rules":          {[]core.Rule{rule("tool", core.PerDay(1)), rule("user", core.PerDay(1))}, []string{"tool", "user"}, false},
		"nothing, ever":      {[]core.Rule{rule("closed", core.PerDay(0))}, []string{"closed"}, true},
		"nothing, and later": {[]core.Rule{rule("tool", core.PerDay(1)), rule("closed", core.PerDay(0))}, []string{"closed"}, true},
	} {
		l := core.Must(core.New(append(row.rules, rule("server", core.PerDay(100)))))
		s := inMemory(t, newServer(mcplimit.New(l, mcplimit.WithDenyHandler(nil), mcplimit.WithErrorHandler(nil))))
		var err error
		for range 3 {
			_, err = call(t.Context(), s, "search")
		}
		d := denialOf(t, err)
		expect.True(t, slices.Equal(d.Rules, row.want) && (d.RetryAfterSeconds == nil) == row.never,
			"%s: the data are %+v, want rules %q", why, d, row.want)
		admitted := 1
		if row.never {
			admitted = 0
		}
		expect.Equal(t, remaining(t, l, "server"), 100-admitted, "%s: the server has left", why)
	}
}

// TestToolErrorIsComplete checks that the result of a denied tool has the resultType that clients of protocol version 2026-07-28 need.
func TestToolErrorIsComplete(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerDay(0).By(keyfunc.Const("all"))}))
	s := inMemory(t, newServer(mcplimit.New(l, mcplimit.WithDenyHandler(mcplimit.ToolError))))
	res := must.Get(s.CallTool(t.Context(), &mcp.CallToolParams{Name: "search"}))(t)
	got := string(must.Get(json.Marshal(res))(t))
	expect.True(t, res.IsError && strings.Contains(got, `"resultType":"complete"`), "the client gets %s", got)
	s = inMemory(t, newServer(mcplimit.New(l, mcplimit.WithDenyHandler(func(context.Context, mcp.Request, core.Decision) (mcp.Result, error) {
		return nil, errors.New("upgrade")
	}))))
	expect.Contains(t, expect.ErrorOf(call(t.Context(), s, "search")).Error(), "upgrade", "the error of a deny handler")
	s = inMemory(t, newServer(mcplimit.New(l, mcplimit.WithDenyHandler(func(context.Context, mcp.Request, core.Decision) (mcp.Result, error) {
		var none *mcp.CallToolResult
		return none, nil
	}))))
	expect.Equal(t, denialOf(t, expect.ErrorOf(call(t.Context(), s, "search"))).Rules[0], "default", "the denial after a nil result")
}

func TestNilLimiter(t *testing.T) {
	expect.Fails(t, expect.PanicOf(func() { mcplimit.New(nil) }), "the panic of New(nil)")
}
