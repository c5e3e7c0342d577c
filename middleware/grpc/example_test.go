package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
)

// answer calls a server with this interceptor.
func answer(limit grpc.UnaryServerInterceptor) (header metadata.MD, err error) {
	s := grpc.NewServer(grpc.UnaryInterceptor(limit))
	s.RegisterService(desc, echo())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = s.Serve(listener) }()
	defer s.Stop()
	conn, err := grpc.Dial(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	err = conn.Invoke(context.Background(), unary, wrapperspb.String("a message"), new(emptypb.Empty), grpc.Header(&header))
	return header, err
}

func Example() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter)), grpc.ChainStreamInterceptor(grpclimit.Stream(limiter)))
	s.RegisterService(desc, echo())
	fmt.Println(len(s.GetServiceInfo()))
	// Output: 1
}

func ExampleUnary() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	header, err := answer(grpclimit.Unary(limiter))
	fmt.Println(header["x-ratelimit-remaining"], err)
	// Output: [99] <nil>
}

// A stream is charged when it opens.
func ExampleStream() {
	limiter := core.Must(core.New([]core.Rule{{Key: keyfunc.RemoteIP, Limits: []core.Limit{core.AtOnce(10)}}}))
	s := grpc.NewServer(grpc.ChainStreamInterceptor(grpclimit.Stream(limiter)))
	s.Stop()
	// Output:
}

func ExampleWithHeaders() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	header, _ := answer(grpclimit.Unary(limiter, grpclimit.WithHeaders(headers.IETF)))
	fmt.Println(header["ratelimit"][0])
	// Output: "default";r=99;t=1
}

// A deny handler that logs the denial and adds to its details.
func ExampleWithDenyHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	_, err := answer(grpclimit.Unary(limiter, grpclimit.WithDenyHandler(func(_ context.Context, d core.Decision) error {
		tightest, _ := d.Tightest()
		fmt.Println("denied by", tightest.Limit)
		if s, err := status.Convert(grpclimit.Denial(d)).WithDetails(wrapperspb.String("See https://example.com/plans.")); err == nil {
			return s.Err()
		}
		return nil // the default
	})))
	fmt.Println(status.Code(err), len(status.Convert(err).Details()))
	// Output:
	// denied by 0/1m
	// ResourceExhausted 2
}

func ExampleWithErrorHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	_, err := answer(grpclimit.Unary(limiter, grpclimit.WithErrorHandler(func(_ context.Context, err error) error {
		if errors.Is(err, core.ErrNoKey) {
			return status.Error(codes.Unauthenticated, "Send your key in x-api-key.")
		}
		log.Print(err)
		return nil // the default
	})))
	fmt.Println(err)
	// Output: rpc error: code = Unauthenticated desc = Send your key in x-api-key.
}

func ExampleDenial() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(1).By(keyfunc.Const("all"))}))
	r, _ := http.NewRequest(http.MethodPost, "/", nil)
	_, _ = limiter.Check(r)
	d, _ := limiter.Check(r)
	for _, detail := range status.Convert(grpclimit.Denial(d)).Proto().GetDetails() {
		fmt.Println(detail.GetTypeUrl())
	}
	// Output:
	// type.googleapis.com/google.rpc.RetryInfo
	// type.googleapis.com/google.rpc.QuotaFailure
}

// Each name may be looked up ten times a minute.
func ExampleMessageOf() {
	byName := func(r *http.Request) (string, error) {
		m, _ := grpclimit.MessageOf(r)
		name, ok := m.(*wrapperspb.StringValue)
		if !ok {
			return "", core.ErrNoKey
		}
		return "name:" + name.GetValue(), nil
	}
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(10).By(byName)}))
	_, err := answer(grpclimit.Unary(limiter))
	d, _ := limiter.Take(context.Background(), core.Claim{Key: "name:a message", Peek: true})
	fmt.Println(d.Results[0].Remaining, err)
	// Output: 9 <nil>
}

func ExampleInfrastructure() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}, core.WithSkip(grpclimit.Infrastructure)))
	probe, _ := http.NewRequest(http.MethodPost, "/grpc.health.v1.Health/Check", nil)
	d, err := limiter.Check(probe)
	fmt.Println(d.Allowed, len(d.Results), err)
	// Output: true 0 <nil>
}

// Each client may open ten streams a minute and send 100 messages a second. Faster clients are slowed down.
func ExampleWithMessages() {
	streams := core.Must(core.New([]core.Rule{core.PerMinute(10).By(keyfunc.RemoteIP)}))
	messages := core.Must(core.New([]core.Rule{{Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerSecond(100)}, MaxWait: time.Minute}}))
	s := grpc.NewServer(grpc.ChainStreamInterceptor(grpclimit.Stream(streams, grpclimit.WithMessages(messages))))
	s.Stop()
	// Output:
}
