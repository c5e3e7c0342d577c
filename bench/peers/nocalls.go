//go:build nocalls

package peers

import "google.golang.org/grpc"

// SpillgateCalls panics: the library has no package grpclimit yet.
func SpillgateCalls(Limit) grpc.UnaryServerInterceptor { panic("no package grpclimit") }
