package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
)

// stdio is the environment variable that makes the test binary a server on its standard input and output.
const stdio = "SPILLGATE_E2E_STDIO"

func TestMain(m *testing.M) {
	if os.Getenv(stdio) != "" {
		if err := newServer(perTool()).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	redistest.DropLog()
	os.Exit(m.Run())
}

// perTool returns a limiter of the tool search, for all clients together.
func perTool() *core.Limiter {
	return core.Must(core.New([]core.Rule{{
		Name: "search", Key: keyfunc.Const("all"), Limits: []core.Limit{core.Every(1, 2*time.Second)}, Routes: []string{mcplimit.Route("tools/call", "search")},
	}}))
}

var names = []string{"search", "fetch", "ask", "read", "write", "list", "find", "sum"}

func newServer(l *core.Limiter) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	for _, name := range names {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found"}}}, nil, nil
		})
	}
	s.AddReceivingMiddleware(mcplimit.New(l))
	return s
}

// serve serves s over HTTP, to users whose tokens are their names and to clients without a token.
func serve(t *testing.T, s *mcp.Server, stateless bool) *wire.Server {
	h := http.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	verified := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)(h)
	return wire.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			h.ServeHTTP(w, r)
			return
		}
		verified.ServeHTTP(w, r)
	}), false)
}

// A bearer sends itself as the token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connect returns a session of a user. The caller closes it.
func connect(t *testing.T, url, user string) *mcp.ClientSession {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer(user)}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
	must.Do(t, err)
	return s
}

// call calls a tool. It returns the code of the error and the rules that denied the call, if any.
func call(t *testing.T, s *mcp.ClientSession, tool string) (code int64, rules []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wire.Timeout)
	defer cancel()
	_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: struct{}{}})
	if err == nil {
		return 0, nil
	}
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		t.Errorf("the call of %s fails with %v, want a JSON-RPC error", tool, err)
		return -1, nil
	}
	var data struct{ Rules []string }
	if wire.Code == -32029 {
		if err := json.Unmarshal(wire.Data, &data); err != nil || len(data.Rules) == 0 || slices.Contains(data.Rules, "") {
			t.Errorf("the data of the denial are %s, %v", wire.Data, err)
		}
	}
	return wire.Code, data.Rules
}
