package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
)

func main() {
	limiter := core.Must(core.New([]core.Rule{
		{Name: "search", Key: mcplimit.User, Limits: []core.Limit{core.PerMinute(10)}, Routes: []string{mcplimit.Route("tools/call", "search")}},
		{Name: "user", Key: mcplimit.User, Limits: []core.Limit{core.PerMinute(60)}},
		{Name: "server", Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerMinute(1000)}},
	}))

	server := mcp.NewServer(&mcp.Implementation{Name: "search", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "search", Description: "searches"}, search)
	server.AddReceivingMiddleware(mcplimit.New(limiter))

	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", auth.RequireBearerToken(verify, nil)(handler)))
}

type query struct {
	Text string `json:"text"`
}

func search(_ context.Context, _ *mcp.CallToolRequest, q query) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "nothing found for " + q.Text}}}, nil, nil
}

// verify finds the user of a token. Replace it with a look-up at your authorization server.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if token != "secret" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: "ann", Expiration: time.Now().Add(time.Hour)}, nil
}
