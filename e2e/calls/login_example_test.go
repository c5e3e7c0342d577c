package calls

import (
	"net/http"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/core"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// bothLogins returns an HTTP server and a gRPC server that count failed logins together: a burst of five, then one every
// two minutes.
func bothLogins(ip core.KeyFunc, site http.Handler, opts ...core.Option) (http.Handler, *grpc.Server, error) {
	limiter, err := core.New([]core.Rule{{
		Name:      "login",
		Key:       ip,
		Routes:    []string{"POST /login", "POST /auth.v1.Auth/Login"},
		Limits:    core.MustParseLimits("5/10m"),
		CostAfter: core.Failures,
	}}, opts...)
	if err != nil {
		return nil, nil, err
	}
	calls := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter)),
		grpc.ChainStreamInterceptor(grpclimit.Stream(limiter)),
	)
	return stdlib.New(limiter)(site), calls, nil
}
