package mcplimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
)

// answer calls a tool of a server with this middleware once or several times, and returns what the last call returns.
func answer(limit mcp.Middleware, calls int) (res *mcp.CallToolResult, err error) {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "search"}, func(context.Context, *mcp.CallToolRequest, query) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found"}}}, nil, nil
	})
	server.AddReceivingMiddleware(limit)
	here, there := mcp.NewInMemoryTransports()
	serving, err := server.Connect(ctx, there, nil)
	if err != nil {
		return nil, err
	}
	defer serving.Close()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(ctx, here, nil)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for range calls {
		res, err = client.CallTool(ctx, &mcp.CallToolParams{Name: "search", Arguments: query{"limits"}})
	}
	return res, err
}

// All clients together can call the tool once a day.
var daily = core.Rule{
	Name: "search", Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerDay(1)}, Routes: []string{mcplimit.Route("tools/call", "search")},
}

func Example() {
	limiter := core.Must(core.New([]core.Rule{daily}))
	_, err := answer(mcplimit.New(limiter), 2)
	var denial *jsonrpc.Error
	if errors.As(err, &denial) {
		fmt.Println(denial.Code, denial.Message)
		fmt.Printf("%s\n", denial.Data)
	}
	// Output:
	// -32029 rate limit exceeded: retry in 86400 s
	// {"retryAfterSeconds":86400,"rules":["search"]}
}

func ExampleRoute() {
	fmt.Println(mcplimit.Route("tools/call", "search"))
	fmt.Println(mcplimit.Route("tools/call", "../search"))
	fmt.Println(mcplimit.Route("resources/read", ""))
	// Output:
	// POST /tools/call/search
	// POST /tools/call/~Li4vc2VhcmNo
	// POST /resources/read
}

// Limits for each tool, for each user and for the server are decided together: a call that one of them denies costs the others nothing.
func ExampleUser() {
	limiter := core.Must(core.New([]core.Rule{
		{Name: "search", Key: mcplimit.User, Limits: []core.Limit{core.PerMinute(10)}, Routes: []string{mcplimit.Route("tools/call", "search")}},
		{Name: "user", Key: mcplimit.User, Limits: []core.Limit{core.PerMinute(60)}},
		{Name: "server", Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerMinute(1000)}},
	}, core.WithLogger(slog.New(slog.DiscardHandler))))
	_, err := answer(mcplimit.New(limiter), 1)
	fmt.Println(err)
	// Output: calling "tools/call": The request has no key: credentials or an address are missing.
}

// Calls over stdio have no session: First lets them share one limit.
func ExampleSession() {
	rule := core.PerMinute(10).By(keyfunc.First(mcplimit.Session, keyfunc.Const("local")))
	limiter := core.Must(core.New([]core.Rule{rule}))
	_, err := answer(mcplimit.New(limiter), 1)
	fmt.Println(err)
	// Output: <nil>
}

// A call costs as many requests as its arguments have bytes.
func ExampleRequestOf() {
	rule := core.PerDay(1000).By(keyfunc.Const("all"))
	rule.Cost = func(r *http.Request) int {
		req, _ := mcplimit.RequestOf(r)
		if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok {
			return len(p.Arguments)
		}
		return 1
	}
	limiter := core.Must(core.New([]core.Rule{rule}))
	_, _ = answer(mcplimit.New(limiter), 1)
	d, _ := limiter.Take(context.Background(), core.Claim{Key: "const:all", Peek: true})
	fmt.Println(d.Results[0].Remaining)
	// Output: 983
}

// A model that reads the text of a tool's result can wait by itself.
func ExampleToolError() {
	limiter := core.Must(core.New([]core.Rule{daily}))
	res, err := answer(mcplimit.New(limiter, mcplimit.WithDenyHandler(mcplimit.ToolError)), 2)
	fmt.Println(res.IsError, res.Content[0].(*mcp.TextContent).Text, err)
	// Output: true rate limit exceeded: retry in 86400 s <nil>
}

// A deny handler that logs the tool and leaves the response to the middleware.
func ExampleWithDenyHandler() {
	limiter := core.Must(core.New([]core.Rule{daily}))
	_, err := answer(mcplimit.New(limiter, mcplimit.WithDenyHandler(func(_ context.Context, req mcp.Request, d core.Decision) (mcp.Result, error) {
		tightest, _ := d.Tightest()
		fmt.Println("denied by", tightest.Rule)
		return nil, nil
	})), 2)
	fmt.Println(err)
	// Output:
	// denied by search
	// calling "tools/call": rate limit exceeded: retry in 86400 s
}

func ExampleWithErrorHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(10).By(mcplimit.User)}, core.WithLogger(slog.New(slog.DiscardHandler))))
	_, err := answer(mcplimit.New(limiter, mcplimit.WithErrorHandler(func(_ context.Context, _ mcp.Request, err error) (mcp.Result, error) {
		if errors.Is(err, core.ErrNoKey) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "send your token"}
		}
		log.Print(err)
		return nil, nil
	})), 1)
	fmt.Println(err)
	// Output: calling "tools/call": send your token
}
