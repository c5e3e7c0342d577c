package redistest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy stands between a client and a server and can lose what the server answers.
type Proxy struct {
	Addr  string
	Fault atomic.Int32 // one of the faults below

	target string
	mu     sync.Mutex
	conns  []net.Conn
}

// The faults of a Proxy. They happen to replies, so that the server has run the command.
const (
	NoFault int32 = iota
	CutReplies
	SwallowReplies
)

// StartProxy starts a proxy in front of addr. It ends with the test.
func StartProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &Proxy{Addr: l.Addr().String(), target: addr}
	t.Cleanup(func() {
		l.Close()
		p.closeAll()
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	p.reply(client, server)
	client.Close()
	server.Close()
}

// reply passes on what the server says, unless a fault says otherwise.
func (p *Proxy) reply(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || p.Fault.Load() == CutReplies {
			return
		}
		if p.Fault.Load() == SwallowReplies {
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}
