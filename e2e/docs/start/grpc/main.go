package main

import (
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
)

func main() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))

	s := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter)),
		grpc.ChainStreamInterceptor(grpclimit.Stream(limiter)),
	)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(s.Serve(l))
}
