package processes

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

type process struct {
	t    *testing.T
	addr string
	http *http.Client
}

// startTwo starts two processes besides this one that share a Redis, and returns them.
func startTwo(t *testing.T) (server *redistest.Server, both [2]process) {
	server = redistest.Start(t)
	for i := range both {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		both[i] = process{t, startChild(t, server.Addr), &http.Client{Transport: transport, Timeout: wire.Timeout}}
	}
	return server, both
}

func (p process) get(host string) wire.Reply {
	p.t.Helper()
	r := wire.Request(p.t, http.MethodGet, "http://"+p.addr, nil)
	r.Host = host
	return wire.Send(p.t, p.http, r)
}

// TestProcessesShareLimit sends requests to two processes in turn. Each counts the requests that the other has
// admitted, and their headers agree.
func TestProcessesShareLimit(t *testing.T) {
	_, both := startTwo(t)
	for _, f := range apps.Frameworks {
		t.Run(f.Name, func(t *testing.T) {
			host := "turns-" + f.Name
			for i := range capacity {
				got := both[i%2].get(host)
				got.WantStatus(t, http.StatusOK)
				r := got.Header.Get("X-RateLimit-Remaining")
				expect.True(t, r == strconv.Itoa(capacity-1-i), "request %d: Remaining = %s, want %d", i+1, r, capacity-1-i)
			}
			one, other := both[0].get(host), both[1].get(host)
			one.WantStatus(t, http.StatusTooManyRequests)
			other.WantStatus(t, http.StatusTooManyRequests)
			if a, b := one.Header.Get("X-RateLimit-Reset"), other.Header.Get("X-RateLimit-Reset"); a != b || a == "" {
				t.Errorf("one process sends Reset %q, the other %q, though both use the server's clock", a, b)
			}
			both[0].get("other-"+f.Name).WantStatus(t, http.StatusOK)
		})
	}
}

// TestConcurrentProcessesShareLimit sends requests to two processes at once, over many connections: exactly as many pass as the limit admits.
func TestConcurrentProcessesShareLimit(t *testing.T) {
	_, both := startTwo(t)
	for _, f := range apps.Frameworks {
		t.Run(f.Name, func(t *testing.T) {
			var passed, denied atomic.Int32
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					for range capacity / 8 {
						switch statusOf(t, both[i%2].http, both[i%2].addr, "crowd-"+f.Name) {
						case http.StatusOK:
							passed.Add(1)
						case http.StatusTooManyRequests:
							denied.Add(1)
						}
					}
				})
			}
			all.Wait()
			expect.True(t, passed.Load() == capacity && denied.Load() == capacity,
				"%d passed and %d were denied, want %d each", passed.Load(), denied.Load(), capacity)
		})
	}
}

// TestResetReachesAllProcesses checks that a key that one process resets is free in all processes, even if Redis has lost its
// scripts. A process that has just denied the key may remember the denial for a second.
func TestResetReachesAllProcesses(t *testing.T) {
	server, both := startTwo(t)
	ctx := context.Background()
	client := server.Client(t)
	l := newLimiter(redisstore.New(client)) // stands for a third process
	for _, f := range apps.Frameworks {
		host := "reset-" + f.Name
		for i := range capacity {
			both[i%2].get(host).WantStatus(t, http.StatusOK)
		}
		must.Do(t, client.ScriptFlush(ctx).Err())
		both[0].get(host).WantStatus(t, http.StatusTooManyRequests)
		must.Do(t, l.Reset(ctx, "shared", "host:"+host))
		for i, p := range both {
			got := p.get(host)
			for begun := time.Now(); got.StatusCode != http.StatusOK && time.Since(begun) < 10*time.Second; got = p.get(host) {
				time.Sleep(50 * time.Millisecond)
			}
			got.WantStatus(t, http.StatusOK)
			if r := got.Header.Get("X-RateLimit-Remaining"); r != strconv.Itoa(capacity-1-i) {
				t.Errorf("%s: process %d: Remaining = %s after a reset, want %d", f.Name, i+1, r, capacity-1-i)
			}
		}
	}
}
