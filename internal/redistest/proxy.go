package redistest

import (
	"github.com/spillgate/spillgate/internal/must"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy forwards the commands and replies between clients and a server, and injects faults. It is safe for concurrent use.
type Proxy struct {
	Addr  string
	Fault Switch

	target      string
	dials, runs atomic.Int64

	mu       sync.Mutex
	listener net.Listener // nil while connections are rejected
	conns    map[*conn]struct{}
	running  sync.WaitGroup
}

// StartProxy starts a proxy in front of the server at addr. It ends with the test.
func StartProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	p := &Proxy{Addr: FreeAddr(t), target: addr, conns: make(map[*conn]struct{})}
	p.Accept(t)
	t.Cleanup(func() {
		p.Reject()
		p.running.Wait()
	})
	return p
}

// Dials returns how many connections clients have opened so far.
func (p *Proxy) Dials() int { return int(p.dials.Load()) }

// Runs returns how many scripts clients have run so far, by FCALL, EVALSHA and EVAL.
func (p *Proxy) Runs() int { return int(p.runs.Load()) }

// Conns returns how many connections of clients are open.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Accept begins to accept connections. After Reject, it uses the same address as before.
func (p *Proxy) Accept(t testing.TB) {
	t.Helper()
	l := must.Get(net.Listen("tcp", p.Addr))(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = l
	p.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.dials.Add(1)
			p.running.Go(func() { p.serve(l, client) })
		}
	})
}

// Reject rejects connections and resets those that are open.
func (p *Proxy) Reject() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.Cut()
}

// Cut resets the connections that are open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close(Reset)
	}
}

// serve forwards the data of both sides of a connection until either ends.
func (p *Proxy) serve(l net.Listener, client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	c := &conn{proxy: p, client: client, server: server, closed: make(chan struct{})}
	if !p.add(l, c) {
		c.close(Reset)
		return
	}
	p.running.Go(c.replies)
	c.commands()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// add adds c to the open connections, unless the listener that accepted it has been closed.
func (p *Proxy) add(l net.Listener, c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != l {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}
