package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/bench/peers"
)

// A way is a way in which a server serves calls or requests, with a limiter in memory and without one.
type way struct {
	name  string
	role  role
	serve func(net.Listener, *peers.Limit) error // nil: no limiter
	take  func(addr string) peers.Take           // over a connection of its own
}

const (
	unary    = "grpclimit.Unary"
	overHTTP = "stdlib before grpc.Server.ServeHTTP"
)

var ways = []way{
	{unary, ours, serveCalls, call},
	{overHTTP, ours, serveCallsOverHTTP, call},
	{"stdlib, a GET over HTTP/1.1", note, serveRequests, get},
}

// callsRow measures what the two ways to limit the calls of a gRPC server add to a call, by pairs as memoryRow.
func callsRow() *row {
	return &row{
		name: "gRPC over sockets, memory", minRounds: 25, open: openCalls, counted: true, count: countCalls,
		unit: unit{columns: []string{"added CPU µs", "server CPU µs", "p50 µs", "p99 µs"}},
		task: fmt.Sprintf("Health checks of %d users over 32 connections to a server of grpc-go in a process of its own: the processor time per "+
			"call, and the instructions, that a limiter of ten digits adds to the server. grpclimit limits calls of grpc-go's own "+
			"transport, and stdlib limits calls of net/http over h2c.", socketKeys),
		bounds: []bound{atMost(unary, overHTTP, 1.25)},
		counts: []bound{atMostIn(instructions, unary, overHTTP, 1.25)},
	}
}

func openCalls(e *env, f *setup) error {
	program, err := thisProgram()
	if err != nil {
		return err
	}
	for _, w := range ways {
		each := func(limited bool) (measure, error) {
			var addr string
			server, err := start(e.ctx, program, "serve way", serving{Peer: w.name, Limited: limited}, &addr)
			if err != nil {
				return nil, err
			}
			f.onClose(server.stop)
			store := &peers.Store{Name: w.name, Worker: func() peers.Take { return w.take(addr) }}
			cpu := func() (µs float64, err error) {
				err = server.call(nil, &µs)
				return µs, err
			}
			return metered(e.load(store, 32, uniform(socketKeys), admitted, counted(typical)), cpu), nil
		}
		limited, err := each(true)
		if err != nil {
			return err
		}
		bare, err := each(false)
		if err != nil {
			return err
		}
		f.add(w.name, w.role, added(limited, bare))
	}
	return nil
}

// countCalls counts the instructions that a limiter adds to a call of a way.
func countCalls(e *env, program program, name string) (float64, error) {
	w, _ := wayOf(name)
	each := func(limited bool) (float64, error) {
		var addr string
		return e.counted(program, "serve way", serving{Peer: name, Limited: limited}, &addr, func(server *process) error {
			take := w.take(addr)
			for i := range 2 * countedDecisions {
				if !take(peers.Key(i % 100)) {
					return errWrong
				}
				if (i+1)%countedDecisions == 0 {
					if err := server.call(nil, nil); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	limited, err := each(true)
	if err != nil {
		return 0, err
	}
	bare, err := each(false)
	return limited - bare, err
}

func wayOf(name string) (w way, ok bool) {
	i := slices.IndexFunc(ways, func(w way) bool { return w.name == name })
	if i < 0 {
		return w, false
	}
	return ways[i], true
}

// serveWay serves in one of ways.
func serveWay(_ context.Context, argument []byte) (session, error) {
	var arg serving
	if err := json.Unmarshal(argument, &arg); err != nil {
		return session{}, err
	}
	w, ok := wayOf(arg.Peer)
	if !ok {
		return session{}, fmt.Errorf("there is no %+v", arg)
	}
	var limit *peers.Limit
	if arg.Limited {
		limit = &large
	}
	return listen(func(l net.Listener) error { return w.serve(l, limit) })
}

func callServer(opts ...grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	return s
}

func serveCalls(l net.Listener, limit *peers.Limit) error {
	if limit == nil {
		return callServer().Serve(l)
	}
	return callServer(grpc.ChainUnaryInterceptor(peers.SpillgateCalls(*limit))).Serve(l)
}

func serveCallsOverHTTP(l net.Listener, limit *peers.Limit) error {
	return serveHTTP(l, limit, callServer())
}

func serveRequests(l net.Listener, limit *peers.Limit) error { return serveHTTP(l, limit, brief) }

func serveHTTP(l net.Listener, limit *peers.Limit, h http.Handler) error {
	if limit != nil {
		h = peers.SpillgateUsers(*limit)(h)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return (&http.Server{Handler: h, Protocols: protocols}).Serve(l)
}

// call makes calls with a client of grpc-go.
func call(addr string) peers.Take {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	client := healthpb.NewHealthClient(conn)
	return func(user string) bool {
		if err != nil {
			return false
		}
		_, failed := client.Check(metadata.AppendToOutgoingContext(context.Background(), "x-user", user), new(healthpb.HealthCheckRequest))
		return failed == nil
	}
}

// get makes requests with a client of net/http.
func get(addr string) peers.Take {
	client := &http.Client{Transport: new(http.Transport)}
	return func(user string) bool {
		r, err := http.NewRequest(http.MethodGet, "http://"+addr, nil)
		if err != nil {
			return false
		}
		r.Header.Set("X-User", user)
		resp, err := client.Do(r)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}
}
