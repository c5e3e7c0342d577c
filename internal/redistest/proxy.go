package redistest

import (
	"bytes"
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

// The faults of a Proxy. They happen to replies to scripts, so that the server has run them.
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
	var asked sight
	go func() {
		_, _ = io.Copy(io.MultiWriter(&asked, server), client)
		server.Close()
	}()
	p.reply(client, server, &asked)
	client.Close()
	server.Close()
}

// A sight says whether a script was among what was written last.
type sight struct{ script atomic.Bool }

func (s *sight) Write(b []byte) (int, error) {
	s.script.Store(bytes.Contains(b, []byte("evalsha")))
	return len(b), nil
}

// reply passes on what the server says, unless a fault says otherwise.
func (p *Proxy) reply(client, server net.Conn, asked *sight) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		fault := p.Fault.Load()
		if err != nil || fault == CutReplies && asked.script.Load() {
			return
		}
		if fault == SwallowReplies && asked.script.Load() {
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
