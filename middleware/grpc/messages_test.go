package grpclimit_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
)

const timeout = 20 * time.Second

// counted returns a limiter of n requests of all clients together, of which none refills during a test.
func counted(n int) *core.Limiter {
	return core.Must(core.New([]core.Rule{core.PerHour(n).Using(core.SlidingLog).By(keyfunc.Const("all"))}))
}

// receive returns a handler that receives all messages, and a counter of them.
func receive(got *int) func(grpc.ServerStream) error {
	return func(s grpc.ServerStream) error {
		for {
			if err := s.RecvMsg(new(wrapperspb.StringValue)); err == io.EOF {
				return s.SendMsg(new(emptypb.Empty))
			} else if err != nil {
				return err
			}
			*got++
		}
	}
}

func send(t *testing.T, conn *grpc.ClientConn, n int) (header, trailer metadata.MD, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	s := must.Get(conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, stream))(t)
	for range n {
		if s.SendMsg(wrapperspb.String("m")) != nil {
			break // RecvMsg says why
		}
	}
	_ = s.CloseSend()
	err = s.RecvMsg(new(emptypb.Empty))
	header, _ = s.Header()
	return header, s.Trailer(), err
}

// TestMessages checks which messages reach the handler, with the same or different limiters for streams and messages, mounted once
// or several times.
func TestMessages(t *testing.T) {
	other := counted(1000)
	for why, row := range map[string]struct {
		interceptors func(l *core.Limiter) []grpc.StreamServerInterceptor
		want         int // of a limit of 5
	}{
		"another limiter": {func(l *core.Limiter) []grpc.StreamServerInterceptor {
			return []grpc.StreamServerInterceptor{grpclimit.Stream(other, grpclimit.WithMessages(l))}
		}, 5},
		"the limiter of the stream": {func(l *core.Limiter) []grpc.StreamServerInterceptor {
			return []grpc.StreamServerInterceptor{grpclimit.Stream(l, grpclimit.WithMessages(l))}
		}, 4},
		"the limiter of an outer interceptor": {func(l *core.Limiter) []grpc.StreamServerInterceptor {
			return []grpc.StreamServerInterceptor{grpclimit.Stream(l), grpclimit.Stream(other, grpclimit.WithMessages(l))}
		}, 4},
		"mounted twice": {func(l *core.Limiter) []grpc.StreamServerInterceptor {
			i := grpclimit.Stream(other, grpclimit.WithMessages(l))
			return []grpc.StreamServerInterceptor{i, i, i}
		}, 5},
		"two limiters": {func(l *core.Limiter) []grpc.StreamServerInterceptor {
			return []grpc.StreamServerInterceptor{grpclimit.Stream(other, grpclimit.WithMessages(other)), grpclimit.Stream(other, grpclimit.WithMessages(l))}
		}, 5},
	} {
		got := 0
		_, trailer, err := send(t, (&service{stream: receive(&got)}).serve(t, nil, row.interceptors(counted(5))), 8)
		expect.True(t, got == row.want && status.Code(err) == codes.ResourceExhausted &&
			len(trailer["grpc-retry-pushback-ms"]) == 1 && len(trailer["x-ratelimit-remaining"]) == 1,
			"%s: the handler got %d messages, want %d; the stream ended with %v, trailer %v", why, got, row.want, err, trailer)
	}
}

// TestMessageDenialEndsStream checks that a handler that ignores a denial cannot continue.
func TestMessageDenialEndsStream(t *testing.T) {
	for why, handle := range map[string]func(grpc.ServerStream) error{
		"returns nil": func(s grpc.ServerStream) error {
			_, _ = s.RecvMsg(new(emptypb.Empty)), s.RecvMsg(new(emptypb.Empty))
			return nil
		},
		"returns another error": func(s grpc.ServerStream) error {
			_, _ = s.RecvMsg(new(emptypb.Empty)), s.RecvMsg(new(emptypb.Empty))
			return io.ErrNoProgress
		},
		"has sent initial metadata and a message": func(s grpc.ServerStream) error {
			_, _, _ = grpc.SendHeader(s.Context(), nil), s.SendMsg(new(emptypb.Empty)), s.RecvMsg(new(emptypb.Empty))
			return s.RecvMsg(new(emptypb.Empty))
		},
		"receives on": func(s grpc.ServerStream) error {
			for denials := 0; denials < 3; {
				if err := s.RecvMsg(new(emptypb.Empty)); status.Code(err) == codes.ResourceExhausted {
					denials++
				} else if err != nil {
					return err
				}
			}
			return nil
		},
		"waits for its context": func(s grpc.ServerStream) error {
			go func() {
				for s.RecvMsg(new(emptypb.Empty)) == nil {
				}
			}()
			<-s.Context().Done()
			expect.Equal(t, status.Code(context.Cause(s.Context())), codes.ResourceExhausted, "the cause is %v", context.Cause(s.Context()))
			return nil
		},
	} {
		conn := (&service{stream: handle}).serve(t, nil, []grpc.StreamServerInterceptor{grpclimit.Stream(counted(9), grpclimit.WithMessages(counted(1)))})
		_, trailer, err := send(t, conn, 3)
		expect.True(t, status.Code(err) == codes.ResourceExhausted && len(trailer["x-ratelimit-limit"]) == 1,
			"a handler that %s: the stream ended with %v, trailer %v", why, err, trailer)
	}
}

// TestMessageDenialAndPanic checks that the outcome of a stream has the panic of a handler whose message was denied.
func TestMessageDenialAndPanic(t *testing.T) {
	var got core.Outcome
	final := func(_ *http.Request, o core.Outcome) int { got = o; return 0 }
	l := core.Must(core.New([]core.Rule{{Name: "s", Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerHour(9)}, CostAfter: final}}))
	handle := func(s grpc.ServerStream) error { panic(s.RecvMsg(new(emptypb.Empty))) }
	conn := (&service{stream: handle}).serve(t, nil, []grpc.StreamServerInterceptor{recovering, grpclimit.Stream(l, grpclimit.WithMessages(counted(0)))})
	_, _, err := send(t, conn, 1)
	expect.True(t, status.Code(err) == codes.Internal && got.Err != nil && got.Status == 500, "the stream ended with %v and the outcome %+v", err, got)
}

// TestMessageFailure checks that a message that cannot be decided ends the stream.
func TestMessageFailure(t *testing.T) {
	got := 0
	l := core.Must(core.New([]core.Rule{core.PerHour(9).By(func(r *http.Request) (string, error) {
		if _, ok := grpclimit.MessageOf(r); ok {
			return "", core.ErrNoKey
		}
		return "const:all", nil
	})}))
	conn := (&service{stream: receive(&got)}).serve(t, nil, []grpc.StreamServerInterceptor{grpclimit.Stream(l, grpclimit.WithMessages(l))})
	if _, trailer, err := send(t, conn, 2); status.Code(err) != codes.InvalidArgument || got != 0 || trailer["grpc-retry-pushback-ms"][0] != "-1" {
		t.Errorf("got %v after %d messages, trailer %v", err, got, trailer)
	}
}

// TestMessageHolds checks how long messages are in flight, and their outcomes.
func TestMessageHolds(t *testing.T) {
	store := new(core.MemoryStore)
	var outcomes []int
	l := core.Must(core.New([]core.Rule{{Name: "m", Key: keyfunc.Const("all"), Limits: []core.Limit{core.AtOnce(1)},
		CostAfter: func(_ *http.Request, o core.Outcome) int {
			outcomes = append(outcomes, o.Status)
			return o.Cost
		}}}, core.WithStore(store)))
	handle := func(s grpc.ServerStream) error {
		for range 2 {
			if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
				return err
			}
			expect.Equal(t, store.Stats().Held, 1, "held")
		}
		return status.Error(codes.NotFound, "no")
	}
	conn := (&service{stream: handle}).serve(t, nil, []grpc.StreamServerInterceptor{grpclimit.Stream(counted(9), grpclimit.WithMessages(l))})
	_, _, err := send(t, conn, 2)
	expect.True(t, status.Code(err) == codes.NotFound, "%v", err)
	if held := store.Stats().Held; held != 0 || len(outcomes) != 2 || outcomes[0] != 200 || outcomes[1] != 404 {
		t.Errorf("%d held; the outcomes are %v", held, outcomes)
	}
}

// TestMessagesWait checks that a stream that is too fast is slowed down, and that flow control pauses its client.
func TestMessagesWait(t *testing.T) {
	const messages, rate = 40, 200
	rule := core.PerSecond(rate).WithBurst(1).By(keyfunc.Const("all"))
	rule.MaxWait = time.Minute
	l := core.Must(core.New([]core.Rule{rule}))
	got, begun := 0, time.Now()
	conn := (&service{stream: receive(&got)}).serve(t, nil, []grpc.StreamServerInterceptor{grpclimit.Stream(counted(9), grpclimit.WithMessages(l))})
	header, _, err := send(t, conn, messages)
	if took := time.Since(begun); err != nil || got != messages || took < (messages-1)*time.Second/rate || len(header["x-ratelimit-remaining"]) != 1 {
		t.Errorf("%d messages in %v, %v; header %v", got, took, err, header)
	}

	rule = core.PerHour(1).By(keyfunc.Const("all"))
	rule.MaxWait = time.Hour
	slow := core.Must(core.New([]core.Rule{rule}))
	got = 0
	conn = (&service{stream: receive(&got)}).serve(t, nil, []grpc.StreamServerInterceptor{grpclimit.Stream(counted(9), grpclimit.WithMessages(slow))})
	ctx, cancel := context.WithCancel(t.Context())
	s := must.Get(conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, stream))(t)
	stuck := make(chan int)
	go func() {
		n, m := 0, wrapperspb.String(string(make([]byte, 16<<10)))
		for s.SendMsg(m) == nil {
			n++
		}
		stuck <- n
	}()
	for slow.StoreHealth().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	time.AfterFunc(200*time.Millisecond, cancel)
	expect.AtMost(t, <-stuck, 100, "messages of 16 KiB that the client sent while the server waited")
}

// TestHandlers checks the errors that deny and error handlers return.
func TestHandlers(t *testing.T) {
	custom := status.Error(codes.Aborted, "custom")
	failing := core.Must(core.New([]core.Rule{core.PerHour(1).By(func(*http.Request) (string, error) { return "", core.ErrNoKey })}))
	for why, row := range map[string]struct {
		limiter *core.Limiter
		opt     grpclimit.Option
		want    codes.Code
	}{
		"deny":            {counted(1), grpclimit.WithDenyHandler(func(context.Context, core.Decision) error { return custom }), codes.Aborted},
		"deny, nil error": {counted(1), grpclimit.WithDenyHandler(func(context.Context, core.Decision) error { return nil }), codes.ResourceExhausted},
		"nil":             {counted(1), grpclimit.WithDenyHandler(nil), codes.ResourceExhausted},
		"fail":            {failing, grpclimit.WithErrorHandler(func(context.Context, error) error { return custom }), codes.Aborted},
		"fail, nil error": {failing, grpclimit.WithErrorHandler(func(_ context.Context, err error) error {
			expect.ErrorIs(t, err, core.ErrNoKey, "the error")
			return nil
		}), codes.InvalidArgument},
	} {
		conn := echo().serve(t, []grpc.UnaryServerInterceptor{grpclimit.Unary(row.limiter, row.opt)}, nil)
		var err error
		var trailer metadata.MD
		for range 2 {
			err = conn.Invoke(t.Context(), unary, wrapperspb.String("x"), new(emptypb.Empty), grpc.Trailer(&trailer))
		}
		expect.True(t, status.Code(err) == row.want && len(trailer["grpc-retry-pushback-ms"]) == 1,
			"%s: %v, trailer %v; want %v", why, err, trailer, row.want)
	}
}

// TestInitialMetadata checks that the fields are sent beside the initial metadata that handlers send, by each way to send it. With
// grpc.SendHeader, they are in the trailer.
func TestInitialMetadata(t *testing.T) {
	own := metadata.Pairs("own", "1")
	s := &service{
		unary: func(ctx context.Context, way string) error {
			if way == "send" {
				return grpc.SendHeader(ctx, own)
			}
			return grpc.SetHeader(ctx, own)
		},
		stream: func(s grpc.ServerStream) error {
			m := new(wrapperspb.StringValue)
			if err := s.RecvMsg(m); err != nil {
				return err
			}
			var err error
			switch m.GetValue() {
			case "set":
				err = s.SetHeader(own)
			case "send":
				err = s.SendHeader(own)
			case "send by context":
				err = grpc.SendHeader(s.Context(), own)
			}
			if err != nil {
				return err
			}
			return s.SendMsg(new(emptypb.Empty))
		},
	}
	l := counted(99)
	conn := s.serve(t, []grpc.UnaryServerInterceptor{grpclimit.Unary(l), grpclimit.Unary(counted(99))}, []grpc.StreamServerInterceptor{grpclimit.Stream(l), grpclimit.Stream(counted(99))})
	const field = "x-ratelimit-limit"
	check := func(why string, err error, header, trailer metadata.MD, late bool) {
		t.Helper()
		with, without := header, trailer
		if late {
			with, without = trailer, header
		}
		expect.True(t, err == nil && len(header["own"]) == 1 && len(with[field]) == 1 && len(without[field]) == 0,
			"%s: header %v, trailer %v, %v", why, header, trailer, err)
	}
	for _, way := range []string{"set", "send"} {
		var header, trailer metadata.MD
		err := conn.Invoke(t.Context(), unary, wrapperspb.String(way), new(emptypb.Empty), grpc.Header(&header), grpc.Trailer(&trailer))
		check("unary, "+way, err, header, trailer, way == "send")
	}
	for _, way := range []string{"set", "send", "send by context"} {
		c := must.Get(conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, stream))(t)
		_ = c.SendMsg(wrapperspb.String(way))
		_ = c.CloseSend()
		err := c.RecvMsg(new(emptypb.Empty))
		header, _ := c.Header()
		check("stream, "+way, err, header, c.Trailer(), way == "send by context")
	}
}

// TestTransport checks that handlers find the transport's own stream: grpc.SetSendCompressor and
// grpc.ClientSupportedCompressors of later versions work with no other.
func TestTransport(t *testing.T) {
	var own grpc.ServerTransportStream
	check := func(ctx context.Context) error {
		found := grpc.ServerTransportStreamFromContext(ctx)
		expect.True(t, found != nil && found == own, "the handler found a %T, want the %T of the server", found, own)
		return nil
	}
	s := &service{
		unary:  func(ctx context.Context, _ string) error { return check(ctx) },
		stream: func(s grpc.ServerStream) error { return check(s.Context()) },
	}
	conn := s.serve(t, []grpc.UnaryServerInterceptor{func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		own = grpc.ServerTransportStreamFromContext(ctx)
		return next(ctx, m)
	}, grpclimit.Unary(counted(9))}, []grpc.StreamServerInterceptor{func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		own = grpc.ServerTransportStreamFromContext(s.Context())
		return next(srv, s)
	}, grpclimit.Stream(counted(9))})
	must.Do(t, conn.Invoke(t.Context(), unary, wrapperspb.String("x"), new(emptypb.Empty)))
	c := must.Get(conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, stream))(t)
	_ = c.RecvMsg(new(emptypb.Empty))
}

// TestWrappedTransport checks that limiters send their fields once, even if an interceptor between them wraps the transport, and
// that the wrapper gets what the handler sends.
func TestWrappedTransport(t *testing.T) {
	var own int
	wrap := func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(grpc.NewContextWithServerTransportStream(ctx, counting{grpc.ServerTransportStreamFromContext(ctx), &own}), m)
	}
	s := &service{unary: func(ctx context.Context, _ string) error { return grpc.SetHeader(ctx, metadata.Pairs("own", "1")) }}
	conn := s.serve(t, []grpc.UnaryServerInterceptor{grpclimit.Unary(counted(9)), wrap, grpclimit.Unary(counted(5))}, nil)
	var header metadata.MD
	err := conn.Invoke(t.Context(), unary, wrapperspb.String("x"), new(emptypb.Empty), grpc.Header(&header))
	expect.True(t, err == nil && own == 1 && len(header["own"]) == 1 && len(header["x-ratelimit-limit"]) == 1,
		"header %v, %v; the wrapper got %d fields", header, err, own)
}

type counting struct {
	grpc.ServerTransportStream
	calls *int
}

func (c counting) SetHeader(md metadata.MD) error {
	*c.calls++
	return c.ServerTransportStream.SetHeader(md)
}
