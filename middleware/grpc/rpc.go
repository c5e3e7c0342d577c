package grpclimit

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc"
)

// An rpc is a call that an interceptor limits. It is the context of the request that the limiter decides, and the Router
// that finds its route.
type rpc struct {
	context.Context
	message  any  // of a unary call
	known    bool // to the server, which may pass other calls to an UnknownServiceHandler
	request  http.Request
	url      url.URL
	response *response
	own      response // unless an interceptor further out limits the call too
}

func newRPC(ctx context.Context, method string, message any, known bool) *rpc {
	c := &rpc{Context: ctx, message: message, known: known}
	c.setRequest(ctx, method)
	if c.response, _ = ctx.Value(responseKey{}).(*response); c.response == nil {
		c.response = &c.own
		if c.own.ServerTransportStream = grpc.ServerTransportStreamFromContext(ctx); c.own.ServerTransportStream != nil {
			c.Context = grpc.NewContextWithServerTransportStream(ctx, &c.own)
		}
	}
	return c
}

func (c *rpc) isOutermost() bool { return c.response == &c.own }

type messageKey struct{}
type responseKey struct{}

// Value implements context.Context.
func (c *rpc) Value(key any) any {
	switch key {
	case messageKey{}:
		return c.message
	case responseKey{}:
		return c.response
	}
	return c.Context.Value(key)
}

// RoutePattern implements core.Router. The routes of a server are its methods.
func (c *rpc) RoutePattern(*http.Request) (string, error) {
	if !c.known {
		return "", nil
	}
	return c.url.Path, nil
}
