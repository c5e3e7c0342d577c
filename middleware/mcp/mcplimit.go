package mcplimit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/option"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// An Option changes how the middleware responds. A nil handler, and a handler that returns neither a result nor an error, means the
// default response. So a handler can log and leave the response to the middleware.
type Option func(*options)

type options struct {
	deny func(context.Context, mcp.Request, core.Decision) (mcp.Result, error)
	fail func(context.Context, mcp.Request, error) (mcp.Result, error)
}

// WithDenyHandler uses deny to respond to denied calls. ToolError is such a handler. The SDK does not set the resultType of the result
// that a handler returns, which clients of protocol version 2026-07-28 need: set it with the result's UnmarshalJSON.
func WithDenyHandler(deny func(ctx context.Context, req mcp.Request, d core.Decision) (mcp.Result, error)) Option {
	return func(o *options) { o.deny = deny }
}

// WithErrorHandler uses fail to respond to calls that could not be decided: see core.Limiter.Check for the errors. Do not send their
// texts to clients.
func WithErrorHandler(fail func(ctx context.Context, req mcp.Request, err error) (mcp.Result, error)) Option {
	return func(o *options) { o.fail = fail }
}

// New returns a middleware that asks l about each call before the server handles it. It panics if l or an option is nil.
func New(l *core.Limiter, opts ...Option) mcp.Middleware {
	if l == nil {
		panic("spillgate: the limiter is nil; want one that core.New returned")
	}
	var o options
	option.Apply(&o, opts)
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "initialize" || method == "server/discover" || method == "ping" || strings.HasPrefix(method, "notifications/") {
				return next(ctx, method, req)
			}
			return o.limit(ctx, l, next, method, req)
		}
	}
}

func (o *options) limit(ctx context.Context, l *core.Limiter, next mcp.MethodHandler, method string, req mcp.Request) (res mcp.Result, err error) {
	c := newCall(ctx, method, req)
	g, failure := l.Guard(c, &c.request, c)
	defer g.End()
	ctx = g.Request().Context()
	if failure != nil {
		if o.fail != nil {
			res, err = o.fail(ctx, req, failure)
		}
		if isNil(res) && err == nil {
			err = failed(failure)
		}
		return res, err
	}
	if !g.Admitted() {
		if o.deny != nil {
			res, err = o.deny(ctx, req, g.Decision())
		}
		if isNil(res) && err == nil {
			err = denied(g.Decision())
		}
		return res, err
	}
	var a outcome.Answer
	if g.Watches() {
		defer func() {
			if tool, _ := res.(*mcp.CallToolResult); err != nil || tool != nil && tool.IsError {
				a.Status, a.Err = http.StatusInternalServerError, err
			}
			if errors.Is(ctx.Err(), context.Canceled) {
				a.Status = 499 // of nginx, for a client that does not wait for the response
			}
			g.Settle(outcome.Of(g.Request(), a))
		}()
	}
	res, err = next(ctx, method, req)
	a.Returned = true
	return res, err
}

// isNil reports whether a handler returned no result. The SDK panics if a result is a nil pointer.
func isNil(res mcp.Result) bool {
	v := reflect.ValueOf(res)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// denied returns the response to a call that d denies. Other servers of MCP use the same code.
func denied(d core.Decision) error {
	message, data := "rate limit exceeded: retrying will not help", append(make([]byte, 0, 96), '{')
	if wait := d.RetryAfter(); wait != core.Never {
		seconds := strconv.FormatInt(max(1, int64((wait+time.Second-1)/time.Second)), 10)
		message = "rate limit exceeded: retry in " + seconds + " s"
		data = append(append(append(data, `"retryAfterSeconds":`...), seconds...), ',')
	}
	var rules []string
	for i := range d.Results {
		if r := &d.Results[i]; !r.Allowed && !r.DryRun && !slices.Contains(rules, r.Rule) {
			rules = append(rules, r.Rule)
		}
	}
	names, _ := json.Marshal(rules) // strings: cannot fail
	data = append(append(append(data, `"rules":`...), names...), '}')
	return &jsonrpc.Error{Code: -32029, Message: message, Data: data}
}

// failed returns the response to a call that could not be decided. It does not show the text of err.
func failed(err error) error {
	p, code := respond.Failure(err), int64(jsonrpc.CodeInternalError)
	if p.Status == http.StatusBadRequest {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: p.Detail}
}

// ToolError is a deny handler for models that read when to retry: it responds to a denied tool with a result that has IsError set and
// says so in its text. Other methods get the default response.
func ToolError(_ context.Context, req mcp.Request, d core.Decision) (mcp.Result, error) {
	if _, ok := req.GetParams().(*mcp.CallToolParamsRaw); !ok {
		return nil, nil
	}
	res := new(mcp.CallToolResult) // only JSON sets its resultType; no text of denied needs escapes
	return res, res.UnmarshalJSON([]byte(`{"resultType":"complete","isError":true,"content":[{"type":"text","text":"` + denied(d).Error() + `"}]}`))
}
