package redistest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// script adds 1 to a key, so that the key shows how often it ran.
const script = "return redis.call('INCR', KEYS[1])"

// dial returns a connected client that does not retry, and that waits for each reply until a timeout.
func dial(t *testing.T, addr string, timeout time.Duration) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: timeout})
	t.Cleanup(func() { c.Close() })
	redistest.Wait(t, "a connection", func() bool { return c.Ping(context.Background()).Err() == nil })
	return c
}

func TestProxyFaults(t *testing.T) {
	timeout := func(err error) bool {
		var late interface{ Timeout() bool }
		return errors.As(err, &late) && late.Timeout()
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	tests := []struct {
		why   string
		fault redistest.Fault
		want  func(error) bool
		runs  int // of the script by the server
		ping  bool
		late  bool // no reply within the timeout of the client
	}{
		{"a command that is cut is not executed", redistest.CutCommands, is(io.EOF), 0, true, false},
		{"one whose reply is cut is", redistest.CutReplies, is(io.EOF), 1, true, false},
		{"or reset, of which go-redis may see the end only", redistest.ResetReplies, func(err error) bool {
			return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
		}, 1, true, false},
		{"a swallowed command leaves the client waiting", redistest.SwallowCommands, timeout, 0, true, true},
		{"so does a swallowed reply, after execution", redistest.SwallowReplies, timeout, 1, true, true},
		{"a black hole swallows what is no script, too", redistest.BlackHole, timeout, 0, false, true},
		{"a delay is within the timeout of the client", redistest.Fault{Delay: 50 * time.Millisecond}, is(nil), 1, true, false},
		{"or not", redistest.Fault{Delay: 2 * time.Second}, timeout, 1, true, true},
		{"the proxy answers in place of the server", redistest.Fault{Answer: "LOADING Redis is loading"},
			func(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "LOADING") }, 0, true, false},
	}
	server := redistest.Start(t)
	direct := server.Client(t)
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			ctx := context.Background()
			direct.FlushAll(ctx)
			p := redistest.StartProxy(t, server.Addr)
			clients := map[bool]*redis.Client{true: dial(t, p.Addr, 200*time.Millisecond), false: dial(t, p.Addr, time.Minute)}
			p.Fault.Store(tt.fault)
			if err := clients[tt.late].Eval(ctx, script, []string{"n"}).Err(); !tt.want(err) {
				t.Errorf("got %v", err)
			}
			if err := clients[!tt.ping].Ping(ctx).Err(); (err == nil) != tt.ping {
				t.Errorf("got %v from a command that is no script", err)
			}
			redistest.Wait(t, "the proxy to see the script and the server to run it", func() bool { // late replies arrive
				n, _ := direct.Get(ctx, "n").Int()
				return n >= tt.runs && p.Runs() >= 1
			})
			if n, _ := direct.Get(ctx, "n").Int(); n != tt.runs || p.Runs() != 1 {
				t.Errorf("the server ran the script %d times and the proxy saw it %d times, want %d and 1", n, p.Runs(), tt.runs)
			}
		})
	}
}

func TestProxyAnswersInOrder(t *testing.T) {
	ctx := context.Background()
	p := redistest.StartProxy(t, redistest.Start(t).Addr)
	c := dial(t, p.Addr, time.Minute)
	p.Fault.Store(redistest.Fault{Answer: "OOM no memory"})
	var replies []string
	cmds, _ := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Echo(ctx, "first")
		pipe.Eval(ctx, script, []string{"n"})
		pipe.ConfigGet(ctx, "maxmemory*")
		pipe.Eval(ctx, script, []string{"n"})
		pipe.Echo(ctx, "last")
		return nil
	})
	for _, cmd := range cmds {
		replies = append(replies, cmd.String())
	}
	for i, want := range []string{"first", "OOM", "maxmemory-policy", "OOM", "last"} {
		expect.True(t, strings.Contains(replies[i], want), "reply %d is %q, want %q in it", i, replies[i], want)
	}
}

func TestProxyEndsConnections(t *testing.T) {
	server := redistest.Start(t)
	for end, want := range map[redistest.End]error{redistest.EOF: io.EOF, redistest.Reset: syscall.ECONNRESET} {
		p := redistest.StartProxy(t, server.Addr)
		p.Fault.Store(redistest.Fault{Lose: redistest.Replies, End: end, Every: true})
		c := must.Get(net.Dial("tcp", p.Addr))(t)
		defer c.Close()
		if _, err := io.WriteString(c, "*1\r\n$4\r\nPING\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestProxyRejects(t *testing.T) {
	ctx := context.Background()
	p := redistest.StartProxy(t, redistest.Start(t).Addr)
	c := dial(t, p.Addr, time.Minute)
	for range 3 {
		if err := c.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if n := p.Conns(); n != 1 {
			t.Errorf("%d connections are open, want 1", n)
		}
		p.Reject()
		if err := c.Ping(ctx).Err(); err == nil {
			t.Error("a proxy that rejects connections lets a command through")
		}
		redistest.Wait(t, "the connections to end", func() bool { return p.Conns() == 0 })
		p.Accept(t)
	}
	if n := p.Dials(); n != 3 {
		t.Errorf("the client has dialled %d times, want 3", n)
	}
}
