package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/spillgate/spillgate/bench/peers"
)

// socketKeys is how many users the requests of socketRows come from. Ten users make a team.
const socketKeys = 5000

// socketBounds are what socketRows require of a number of connections, against ulule.
var socketBounds = []struct {
	connections     int
	requests, redis float64
}{{8, 0.92, 0.95}, {32, 1.15, 0.65}, {128, 1.35, 0.5}}

// redisCPU is the column of socketRows with the processor time of the Redis server.
const redisCPU = "Redis CPU µs"

// socketRows measure what users run: a server, its clients and Redis are processes of their own, connected by TCP.
func socketRows() (rows []*row) {
	for _, s := range shapes() {
		if !s.served {
			continue
		}
		for _, b := range socketBounds {
			r := &row{
				name: fmt.Sprintf("net/http over Redis, %s, %d connections", s.name, b.connections),
				unit: unit{columns: []string{"requests/s", "p50 µs", "p99 µs", redisCPU, "server CPU µs"}, more: true, ratios: true},
				task: fmt.Sprintf("Requests of %d users to a server in a process of its own, from vegeta in another, with Redis in a third. "+
					"The processor times are per request.", socketKeys),
				open: func(e *env, f *setup) error { return openSockets(e, f, s.name, b.connections) },
			}
			if len(s.rules) == 1 {
				r.bounds = []bound{atLeast(spillgate, ulule, b.requests), atMostIn(redisCPU, spillgate, ulule, b.redis)}
			} else {
				r.task += " The peers have a middleware for each of the three limits."
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func openSockets(e *env, f *setup, shape string, connections int) error {
	client, err := e.client(f)
	if err != nil {
		return err
	}
	clients, err := startLoad(e, f)
	if err != nil {
		return err
	}
	for _, m := range peers.OverRedis {
		attack, cpu, err := attackServer(e, f, clients, connections, serving{Peer: m.Name, Shape: shape, Redis: client.Options().Addr})
		if err != nil {
			return err
		}
		role := peer
		if m.Name == spillgate {
			role = ours
		}
		measure := metered(attack, serverTime(client), cpu)
		f.add(m.Name, role, func() (sample, error) {
			s, err := measure()
			if err != nil {
				return nil, err
			}
			return slices.Concat(s[2:], s[:2]), nil
		})
	}
	return nil
}

// startLoad starts the process that sends requests.
func startLoad(e *env, f *setup) (*process, error) {
	program, err := thisProgram()
	if err != nil {
		return nil, err
	}
	clients, err := start(e.ctx, program, "load", nil, nil)
	if err != nil {
		return nil, err
	}
	f.onClose(clients.stop)
	return clients, nil
}

// attackServer starts a server. It returns a measure of requests to the server, whose first number is how many there were, and a
// meter of the server's processor time.
func attackServer(e *env, f *setup, clients *process, connections int, arg serving) (measure, meter, error) {
	program, err := thisProgram()
	if err != nil {
		return nil, nil, err
	}
	var addr string
	server, err := start(e.ctx, program, "serve", arg, &addr)
	if err != nil {
		return nil, nil, err
	}
	f.onClose(server.stop)
	send := func(length time.Duration) measure {
		return func() (s sample, err error) {
			err = clients.call(attack{URL: "http://" + addr, Connections: connections, Length: length}, &s)
			return s, err
		}
	}
	if _, err := send(e.slice)(); err != nil { // the first requests open the connections
		return nil, nil, fmt.Errorf("%s: %w", arg.Peer, err)
	}
	return send(loadSlices * e.slice), func() (µs float64, err error) {
		err = server.call(nil, &µs)
		return µs, err
	}, nil
}

// memoryRow measures what a limiter in memory adds to the requests of a server. Each slice is a pair of a server with a limiter
// and the server without one, because the difference is small beside the rest of a request.
func memoryRow() *row {
	return &row{
		name: "a server over sockets, memory", minRounds: 25, open: openSocketsMemory,
		unit: unit{columns: []string{"added CPU µs", "server CPU µs", "requests/s", "p50 µs", "p99 µs"}},
		task: fmt.Sprintf("Requests of %d users over 32 connections to a server in a process of its own, from vegeta in another: the processor "+
			"time per request that a limiter of ten digits adds to the server, in 25 pairs of turns.", socketKeys),
		bounds: []bound{adds(spillgate, httprate, 0.7)},
	}
}

func openSocketsMemory(e *env, f *setup) error {
	const connections = 32
	clients, err := startLoad(e, f)
	if err != nil {
		return err
	}
	each := func(peer string) (measure, error) {
		attack, cpu, err := attackServer(e, f, clients, connections, serving{Peer: peer})
		return metered(attack, cpu), err
	}
	bare, err := each(unlimited)
	if err != nil {
		return err
	}
	for _, m := range inMemory {
		limited, err := each(m.name)
		if err != nil {
			return err
		}
		f.add(m.name, m.role, added(limited, bare))
	}
	return nil
}

// added returns a measure of a server with a limiter and the server without one, in turns: what the limiter adds to the first
// number, and the numbers of the server with it.
func added(limited, bare measure) measure {
	bareFirst := false
	return func() (sample, error) {
		bareFirst = !bareFirst
		turns, samples := []measure{limited, bare}, make([]sample, 2)
		for i := range turns {
			n := i
			if bareFirst {
				n = 1 - i
			}
			var err error
			if samples[n], err = turns[n](); err != nil {
				return nil, err
			}
		}
		return append(sample{samples[0][0] - samples[1][0]}, samples[0]...), nil
	}
}

// The names of contestants of memoryRow.
const (
	httprate  = "httprate"
	unlimited = "no limiter"
)

// inMemory lists the servers of memoryRow. The one without a limiter shows how far two equal servers differ.
var inMemory = []struct {
	name string
	role role
	wrap func(peers.Limit) func(http.Handler) http.Handler
}{
	{spillgate, ours, peers.SpillgateUsers},
	{httprate, peer, peers.HTTPRateUsers},
	{unlimited, baseline, func(peers.Limit) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler { return next }
	}},
}

// serving is the argument of serve and serveWay. Without a shape, the server limits in memory.
type serving struct {
	Peer, Shape, Redis string
	Limited            bool // for serveWay
}

// wrap returns the middleware that arg describes, or nil if there is none.
func (arg serving) wrap() func(http.Handler) http.Handler {
	if arg.Shape == "" {
		for _, m := range inMemory {
			if m.name == arg.Peer {
				return m.wrap(large)
			}
		}
		return nil
	}
	all := shapes()
	m := slices.IndexFunc(peers.OverRedis, func(m peers.RedisMiddleware) bool { return m.Name == arg.Peer })
	s := slices.IndexFunc(all, func(s shape) bool { return s.name == arg.Shape })
	if m < 0 || s < 0 {
		return nil
	}
	return peers.OverRedis[m].Wrap(all[s].rules, (&server{addr: arg.Redis}).client())
}

// serve serves HTTP behind the middleware of a peer.
func serve(_ context.Context, argument []byte) (session, error) {
	var arg serving
	if err := json.Unmarshal(argument, &arg); err != nil {
		return session{}, err
	}
	wrap := arg.wrap()
	if wrap == nil {
		return session{}, fmt.Errorf("there is no %+v", arg)
	}
	return listen(func(l net.Listener) error { return (&http.Server{Handler: wrap(brief)}).Serve(l) })
}

// brief is a handler that does next to nothing.
var brief = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })

// listen returns the session of a server. It first prints its address. For each line that it reads, it prints the processor
// time that the process has used, in microseconds.
func listen(serve func(net.Listener) error) (session, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return session{}, err
	}
	go func() { panic(serve(l)) }()
	cpu := own()
	return session{first: l.Addr().String(), answer: func([]byte) (any, error) {
		countToHere() // from the last line
		countFromHere()
		return cpu()
	}}, nil
}

// An attack is a line of the input of load.
type attack struct {
	URL         string
	Connections int
	Length      time.Duration
}

// load sends requests over a number of connections. Each connection sends a request as soon as the last one is answered. For
// each line that it reads, it prints how many requests it sent, how many per second, and the median and the 99th percentile of
// their latencies in microseconds. Any status but 200 is an error.
func load(context.Context, []byte) (session, error) {
	users := newUsers()
	clients := make(map[string]*http.Client)
	return session{answer: func(line []byte) (any, error) {
		var a attack
		if err := json.Unmarshal(line, &a); err != nil {
			return nil, err
		}
		if clients[a.URL] == nil {
			clients[a.URL] = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: a.Connections, MaxConnsPerHost: a.Connections}}
		}
		var next atomic.Uint64
		target := func(t *vegeta.Target) error {
			t.Method, t.URL, t.Header = http.MethodGet, a.URL, users[next.Add(1)%uint64(len(users))]
			return nil
		}
		n := uint64(a.Connections)
		var took []uint32
		began := time.Now()
		for len(took) == 0 { // a busy machine may begin late
			attacker := vegeta.NewAttacker(vegeta.Workers(n), vegeta.MaxWorkers(n), vegeta.Client(clients[a.URL]))
			var failed error
			for r := range attacker.Attack(target, vegeta.Rate{}, a.Length, "") {
				if r.Code != http.StatusOK {
					failed = fmt.Errorf("status %d: %s", r.Code, r.Error)
					attacker.Stop()
				}
				took = append(took, uint32(min(r.Latency, 4*time.Second)))
			}
			if failed != nil {
				return nil, failed
			}
		}
		elapsed, count := time.Since(began), float64(len(took))
		slices.Sort(took)
		return sample{count, count / elapsed.Seconds(), percentile(took, 50), percentile(took, 99)}, nil
	}}, nil
}

// newUsers returns the headers of requests in the order in which they are sent.
func newUsers() []http.Header {
	users := make([]http.Header, 4*socketKeys)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range users {
		user := random.IntN(socketKeys)
		users[i] = http.Header{"X-User": {peers.Key(user)}, "X-Team": {peers.Key(user / 10)}}
	}
	return users
}
