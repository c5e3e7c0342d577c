package mcplimit

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
)

// A call is the context of a request of MCP, and the HTTP request that rules see: one allocation takes less time than three.
type call struct {
	context.Context
	mcp     mcp.Request
	request http.Request
	url     url.URL
}

type callKey struct{}

// newCall returns the call of a request. The SDK calls the tools of a session in the context of the HTTP request that opened the
// session, and all calls of a batch in one context. So the decisions in ctx are about another request, unless an outer mcplimit made them.
func newCall(ctx context.Context, method string, req mcp.Request) *call {
	if outer, _ := ctx.Value(callKey{}).(mcp.Request); outer != req {
		ctx = core.WithoutDecision(ctx)
	}
	c := &call{Context: ctx, mcp: req, url: url.URL{Path: path(method, nameOf(method, req))}}
	r := &c.request
	r.Method, r.URL, r.RequestURI, r.Body = http.MethodPost, &c.url, c.url.Path, http.NoBody
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.RemoteAddr = "hidden by the SDK of MCP; for addresses, mount stdlib outside" // key funcs quote it in their errors
	if extra := req.GetExtra(); extra != nil {
		r.Header = extra.Header
	}
	return c
}

// RoutePattern implements core.Router.
func (c *call) RoutePattern(*http.Request) (string, error) { return c.url.Path, nil }

// Value implements context.Context.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c.mcp
	}
	return c.Context.Value(key)
}

// RequestOf returns the request of MCP that r stands for, with its parameters and its session. It is for key funcs, Match, Cost,
// Tier and CostAfter, which get only r. It reports false for a request that did not pass this middleware.
func RequestOf(r *http.Request) (mcp.Request, bool) {
	req, ok := r.Context().Value(callKey{}).(mcp.Request)
	return req, ok
}

// User is a key func for the user whose token the SDK has verified: "user:42", the UserID that the verifier of auth.RequireBearerToken
// has set. It fails with ErrNoKey if there is none: over stdio, in memory and behind NewSSEHandler, for example, which pass no token on.
func User(r *http.Request) (string, error) {
	if req, ok := RequestOf(r); ok {
		if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil && extra.TokenInfo.UserID != "" {
			return "user:" + extra.TokenInfo.UserID, nil
		}
	}
	return "", fmt.Errorf("user of MCP: no verified token with a UserID: %w", core.ErrNoKey)
}

// Session is a key func for the session of the client: "session:XYZ". It fails with ErrNoKey if there is none: over stdio, in memory,
// behind NewSSEHandler, on a stateless server and, since protocol version 2026-07-28, everywhere. A client can open any number of
// sessions, so limit its user too. With MCPGODEBUG=allowsessionsinstateless=1, clients of a stateless server choose their session: do
// not use Session there.
func Session(r *http.Request) (string, error) {
	if req, ok := RequestOf(r); ok && req.GetSession().ID() != "" {
		return "session:" + req.GetSession().ID(), nil
	}
	return "", fmt.Errorf("session of MCP: %w", core.ErrNoKey)
}

// Route returns the pattern of a rule for a method of MCP: Route("tools/call", "search") is "POST /tools/call/search". Only
// the methods "tools/call" and "prompts/get" have a name. A name of ASCII letters, digits, "_", "-" and "." stands as it is, unless
// it consists of dots only. Any other name is "~" and its unpadded base64url, so no two names have one pattern.
func Route(method, name string) string { return http.MethodPost + " " + path(method, name) }

func path(method, name string) string {
	if method == "tools/call" || method == "prompts/get" {
		return "/" + method + "/" + segment(name)
	}
	segments := strings.Split(method, "/")
	for i := range segments {
		segments[i] = segment(segments[i])
	}
	return "/" + strings.Join(segments, "/")
}

func special(c rune) bool { return !strings.ContainsRune(plain, c) }

const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."

// segment returns name as one segment of a path that no router and no pattern reads in another way.
func segment(name string) string {
	if strings.Trim(name, ".") != "" && !strings.ContainsFunc(name, special) {
		return name
	}
	return "~" + base64.RawURLEncoding.EncodeToString([]byte(name))
}

// nameOf returns the name of the tool or prompt that req asks for. The parameters of a custom method may be nil.
func nameOf(method string, req mcp.Request) string {
	p := req.GetParams()
	if tool, ok := p.(*mcp.CallToolParamsRaw); ok && method == "tools/call" {
		return tool.Name
	}
	if prompt, ok := p.(*mcp.GetPromptParams); ok && method == "prompts/get" {
		return prompt.Name
	}
	return ""
}
