package mcplimit_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/testpass"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
)

// outcomes are a limit for each way in which a call can end.
var outcomes = []struct {
	name  string
	limit core.Limit
	final func(*http.Request, core.Outcome) int
	most  float64 // allocations that the middleware adds, key and error included
}{
	{"allowed", core.PerSecond(1_000_000_000), nil, 4},
	{"denied", core.PerHour(1), nil, 12}, // 11 before Go 1.27, whose encoding/json allocates once more
	{"held", core.PerSecond(1_000_000_000), core.Failures, 7},
}

// limiter returns a limiter of a user's calls of a route.
func limiter(l core.Limit, user core.KeyFunc, final func(*http.Request, core.Outcome) int) *core.Limiter {
	return core.Must(core.New([]core.Rule{{Name: "search", Key: user, Limits: []core.Limit{l}, CostAfter: final, Routes: []string{"POST /tools/call/search"}}}))
}

// calling returns a func that calls a tool whose first call a limit of 1 has admitted.
func calling(ctx context.Context, l core.Limit, final func(*http.Request, core.Outcome) int) func() {
	res := new(mcp.CallToolResult)
	h := mcplimit.New(limiter(l, mcplimit.User, final))(func(context.Context, string, mcp.Request) (mcp.Result, error) { return res, nil })
	req := &mcp.CallToolRequest{
		Session: new(mcp.ServerSession), Params: &mcp.CallToolParamsRaw{Name: "search"},
		Extra: &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: "ann"}, Header: make(http.Header)},
	}
	call := func() { _, _ = h(ctx, "tools/call", req) }
	call()
	return call
}

func TestAllocations(t *testing.T) {
	for _, f := range outcomes {
		expect.AtMost(t, testpass.LeastAllocations(f.most, calling(t.Context(), f.limit, f.final)), f.most, "%s: allocations", f.name)
	}
}
