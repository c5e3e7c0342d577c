package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// Some rows start the bench program again. In tests, they start the test binary instead.
func TestMain(m *testing.M) {
	if ran, err := asTask(context.Background(), os.Args[1:], os.Stdin, os.Stdout); ran {
		if err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestRedisMiddlewaresCountEveryLimit(t *testing.T) {
	user, team := keyfunc.Header("X-User"), keyfunc.Header("X-Team")
	loose, tight := core.PerDay(100), core.Every(five.Rate, five.Period)
	for name, rules := range map[string][]core.Rule{
		"one limit":  {{Name: "user", Key: user, Limits: []core.Limit{tight}}},
		"the second": {{Name: "user", Key: user, Limits: []core.Limit{loose, tight}}, {Name: "team", Key: team, Limits: []core.Limit{loose}}},
		"the team's": {{Name: "user", Key: user, Limits: []core.Limit{loose, core.PerHour(100)}}, {Name: "team", Key: team, Limits: []core.Limit{tight}}},
	} {
		client := testClient(t) // limiters that share a client cannot give a rule different limits
		for _, m := range peers.OverRedis {
			client.FlushAll(t.Context())
			h := m.Wrap(rules, client)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			for _, who := range []string{"ann", "bob"} {
				admitted := 0
				for range 3 * five.Rate {
					r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
					r.Header = http.Header{"X-User": {who}, "X-Team": {"of " + who}}
					h.ServeHTTP(w, r)
					if w.Code == http.StatusOK {
						admitted++
					}
				}
				expect.Equal(t, admitted, five.Rate, "%s, %s: how often %s was admitted", name, m.Name, who)
			}
		}
	}
}

func TestServersInMemoryLimitUsers(t *testing.T) {
	for _, m := range inMemory {
		served := 0
		h := m.wrap(five)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		for _, user := range []string{"ann", "bob"} {
			for range 3 * five.Rate {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("X-User", user)
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		expect.Equal(t, served, map[bool]int{true: 6, false: 2}[m.role == baseline]*five.Rate, "%s served requests", m.name)
	}
}

func TestWaysLimit(t *testing.T) {
	for _, w := range ways {
		for want, limit := range map[int]*peers.Limit{five.Rate: &five, 3 * five.Rate: nil} {
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer l.Close()
			go func() { _ = w.serve(l, limit) }()
			take := w.take(l.Addr().String())
			for _, user := range []string{"ann", "bob"} {
				admitted := 0
				for range 3 * five.Rate {
					if take(user) {
						admitted++
					}
				}
				expect.Equal(t, admitted, want, "%s: how often %s was admitted", w.name, user)
			}
		}
	}
}

// A contestant that served without Redis would look fast.
func TestRedisMiddlewaresFailWithoutRedis(t *testing.T) {
	s := must.Get(startServer(context.WithoutCancel(t.Context())))(t)
	defer s.stop()
	client := s.client()
	defer client.Close()
	served := 0
	for _, m := range peers.OverRedis {
		h := m.Wrap(shapes()[0].rules, client)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = http.Header{"X-User": {"ann"}}
		h.ServeHTTP(httptest.NewRecorder(), r)
		expect.Equal(t, served, 1, "%s: served requests", m.Name)
		_ = client.Close()
		func() {
			defer func() { _ = recover() }() // ulule panics
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		expect.Equal(t, served, 1, "%s: served without Redis", m.Name)
		client, served = s.client(), 0
	}
}

func TestLoadUsesItsConnections(t *testing.T) {
	var mu sync.Mutex
	conns, users := make(map[string]bool), make(map[string]bool)
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		conns[r.RemoteAddr], users[r.Header.Get("X-User")] = true, true
		if len(conns) > 3 && status == http.StatusOK {
			status = http.StatusTeapot
		}
		w.WriteHeader(status)
	}))
	defer s.Close()
	clients := must.Get(load(t.Context(), nil))(t)
	line, _ := json.Marshal(attack{URL: s.URL, Connections: 3, Length: 100 * time.Millisecond})
	for range 2 {
		n := must.Get(clients.answer(line))(t).(sample)
		expect.True(t, n[0] >= 1 && n[1] > 0 && n[2] > 0 && n[3] >= n[2], "got %v: requests, per second, p50, p99", n)
	}
	expect.True(t, len(conns) <= 3 && len(users) >= 2, "%d connections of %d users, want at most 3 of several", len(conns), len(users))
	status = http.StatusTooManyRequests
	_, err := clients.answer(line)
	expect.True(t, err != nil && strings.Contains(err.Error(), "429"), "a denied request: %v", err)
}

func TestTasksReportErrors(t *testing.T) {
	program := must.Get(thisProgram())(t)
	ctx := context.WithoutCancel(t.Context())
	_, err := start(ctx, program, "serve", serving{Peer: "nobody"}, nil)
	expect.True(t, err != nil && strings.Contains(err.Error(), "nobody"), "a server of no library: %v", err)
	elsewhere := program
	elsewhere.dir = filepath.Join(t.TempDir(), "gone")
	expect.Fails(t, expect.ErrorOf(start(ctx, elsewhere, "load", nil, nil)), "a program in a directory that does not exist")
	clients := must.Get(start(ctx, program, "load", nil, nil))(t)
	defer clients.stop()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = l.Close()
	err = clients.call(attack{URL: "http://" + l.Addr().String(), Connections: 1, Length: time.Millisecond}, nil)
	expect.Fails(t, err, "requests to a server that is not there")
}
