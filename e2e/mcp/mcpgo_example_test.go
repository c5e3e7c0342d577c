package mcp

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/spillgate/spillgate/core"
)

// tools is a limiter for calls of tools. No adapter mounts it.
func tools() (*core.Limiter, error) {
	return core.New([]core.Rule{
		{Name: "tool", Limits: []core.Limit{core.PerMinute(10)}},
		{Name: "user", Limits: []core.Limit{core.PerMinute(60)}},
		{Name: "server", Limits: []core.Limit{core.PerMinute(1000)}},
	})
}

// limitTools is for server.WithToolHandlerMiddleware. user returns the verified user in a context.
func limitTools(tools *core.Limiter, user func(context.Context) (id string, ok bool)) server.ToolHandlerMiddleware {
	return func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			id, ok := user(ctx)
			if !ok {
				return nil, errors.New("send your token")
			}
			d, err := tools.Take(ctx,
				core.Claim{Rule: "tool", Key: fmt.Sprintf("user:%q tool:%q", id, req.Params.Name)},
				core.Claim{Rule: "user", Key: "user:" + id},
				core.Claim{Rule: "server", Key: "const:all"})
			if err != nil {
				return nil, errors.New("the limit cannot be checked")
			}
			if !d.Allowed {
				return mcp.NewToolResultErrorf("rate limit exceeded: retry in %.0f s", math.Ceil(d.RetryAfter().Seconds())), nil
			}
			return next(ctx, req)
		}
	}
}
