//go:build !nocalls

package peers

import (
	"google.golang.org/grpc"

	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
)

// SpillgateCalls is grpclimit.Unary with its default options and a limit for each user.
func SpillgateCalls(l Limit) grpc.UnaryServerInterceptor { return grpclimit.Unary(users(l)) }
