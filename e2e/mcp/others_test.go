package mcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

type userKey struct{}

// TestMCPGo runs the recipe for mark3labs/mcp-go.
func TestMCPGo(t *testing.T) {
	limit := limitTools(must.Get(tools())(t), func(ctx context.Context) (string, bool) {
		id, ok := ctx.Value(userKey{}).(string)
		return id, ok
	})
	s := server.NewMCPServer("server", "1", server.WithToolHandlerMiddleware(limit))
	s.AddTool(mcp.NewTool("search"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("found"), nil
	})
	c := must.Get(client.NewInProcessClient(s))(t)
	defer c.Close()
	must.Get(c.Initialize(t.Context(), mcp.InitializeRequest{}))(t)
	search := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "search"}}
	_, err := c.CallTool(t.Context(), search)
	expect.True(t, err != nil && strings.Contains(err.Error(), "send your token"), "without a user: %v", err)
	denied := false
	for n := 0; n < 100 && !denied; n++ {
		res := must.Get(c.CallTool(context.WithValue(t.Context(), userKey{}, "ann"), search))(t)
		text := res.Content[0].(mcp.TextContent).Text
		if denied = res.IsError; denied && (n < 10 || !strings.HasPrefix(text, "rate limit exceeded: retry in ")) {
			t.Errorf("call %d is denied: %s", n+1, text)
		}
	}
	expect.True(t, denied, "no call was denied")
	res := must.Get(c.CallTool(context.WithValue(t.Context(), userKey{}, "ben"), search))(t)
	expect.True(t, !res.IsError, "another user: %+v", res)
}

// A line is what the script prints: a denial, or the text of a call's result.
type line struct {
	Code    int
	Message string
	Data    struct {
		RetryAfterSeconds int
		Rules             []string
	}
}

// TestTypeScript checks that the client of the TypeScript SDK is denied, waits and succeeds.
func TestTypeScript(t *testing.T) {
	dir := wire.Node(t, filepath.Join("testdata", "typescript"))
	for name, server := range map[string]func(*testing.T) string{
		"with sessions": func(t *testing.T) string { return serve(t, newServer(perTool()), false).URL },
		"stateless":     func(t *testing.T) string { return serve(t, newServer(perTool()), true).URL },
		"stdio":         func(*testing.T) string { return os.Args[0] },
	} {
		t.Run(name, func(t *testing.T) {
			out := must.Get(wire.Run(t, dir, []string{stdio + "=1"}, "node", "drive.mjs", server(t)))(t)
			got := wire.Decode[line](t, out)
			must.True(t, len(got) == 2 && got[1].Message == "found", "the client prints\n%s", out)
			d := got[0]
			expect.True(t, d.Code == -32029 && d.Data.RetryAfterSeconds >= 1 && d.Data.RetryAfterSeconds <= 2 && slices.Equal(d.Data.Rules, []string{"search"}) &&
				strings.Contains(d.Message, fmt.Sprintf("rate limit exceeded: retry in %d s", d.Data.RetryAfterSeconds)),
				"the client gets %+v", d)
		})
	}
}
