package calls

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/core"
)

// obedient returns an interceptor for the calls of a client. Processes that share the store of l wait for their turn under the
// rule "upstream". If the server denies a call, calls that come later are not sent before the server's wait has passed.
func obedient(l *core.Limiter) grpc.UnaryClientInterceptor {
	const rule, key = "upstream", "const:upstream"
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		d, err := l.Wait(ctx, core.Claim{Rule: rule, Key: key})
		if err != nil {
			return status.FromContextError(err).Err()
		}
		if !d.Allowed {
			return status.Error(codes.ResourceExhausted, "too many calls of this service are waiting")
		}
		err = invoke(ctx, method, req, reply, conn, opts...)
		for _, detail := range status.Convert(err).Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok && retry.GetRetryDelay().AsDuration() > 0 {
				_ = l.Ban(ctx, rule, key, retry.GetRetryDelay().AsDuration()) // otherwise each process finds out by itself
			}
		}
		return err
	}
}
