package redistest

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// A conn is a connection through a proxy.
type conn struct {
	proxy          *Proxy
	client, server net.Conn
	closed         chan struct{}
	once           sync.Once

	mu   sync.Mutex
	owed []Fault // the faults of the commands whose replies the client awaits, in order
}

func (c *conn) close(end End) {
	c.once.Do(func() {
		if tcp, ok := c.client.(*net.TCPConn); ok && end == Reset {
			_ = tcp.SetLinger(0)
		}
		c.client.Close()
		c.server.Close()
		close(c.closed)
	})
}

// commands forwards the commands of the client.
func (c *conn) commands() {
	defer c.close(EOF)
	for r := bufio.NewReader(c.client); ; {
		text, err := readValue(r)
		if err != nil {
			return
		}
		isScript := isScript(text)
		if isScript {
			c.proxy.runs.Add(1)
		}
		if !c.command(text, c.proxy.Fault.of(isScript)) {
			return
		}
	}
}

// command handles a command and reports whether the connection stays open.
func (c *conn) command(text []byte, f Fault) bool {
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-c.closed:
			return false
		}
	}
	if f.Lose == Commands {
		if f.End != NoEnd {
			c.close(f.End)
		}
		return f.End == NoEnd
	}
	c.owe(f)
	if f.Answer == "" {
		_, err := c.server.Write(text)
		return err == nil
	}
	return true
}

// owe queues a reply, and writes it if it is the next one and the proxy has to write it.
func (c *conn) owe(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = append(c.owed, f)
	c.answer()
}

// answer writes the queued replies of the proxy, up to the first one that must come from the server.
func (c *conn) answer() {
	for len(c.owed) > 0 && c.owed[0].Answer != "" {
		_, _ = c.client.Write([]byte("-" + c.owed[0].Answer + "\r\n")) // if the client has disconnected, reading from it ends c
		c.owed = c.owed[1:]
	}
}

// replies forwards the replies of the server.
func (c *conn) replies() {
	defer c.close(EOF)
	for r := bufio.NewReader(c.server); ; {
		text, err := readValue(r)
		if err != nil || !c.reply(text) {
			return
		}
	}
}

// reply handles a reply of the server, and reports whether the connection stays open.
func (c *conn) reply(text []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var f Fault
	if text[0] != '>' && len(c.owed) > 0 { // otherwise it is not a reply to a command
		f, c.owed = c.owed[0], c.owed[1:]
	}
	if f.Lose == Replies {
		if f.End != NoEnd {
			c.close(f.End)
		}
		return f.End == NoEnd
	}
	if _, err := c.client.Write(text); err != nil {
		return false
	}
	c.answer()
	return true
}
