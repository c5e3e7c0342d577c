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
	owed []Fault // those of the commands that the client awaits replies to, in order
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

// commands passes on what the client says.
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

// command deals with a command and reports whether the connection goes on.
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

// owe takes note that a reply is due, and gives it if it is the proxy's to give and the next.
func (c *conn) owe(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = append(c.owed, f)
	c.answer()
}

// answer gives the replies that are the proxy's to give, up to the first that is the server's.
func (c *conn) answer() {
	for len(c.owed) > 0 && c.owed[0].Answer != "" {
		_, _ = c.client.Write([]byte("-" + c.owed[0].Answer + "\r\n")) // if the client has gone, reading from it ends c
		c.owed = c.owed[1:]
	}
}

// replies passes on what the server says.
func (c *conn) replies() {
	defer c.close(EOF)
	for r := bufio.NewReader(c.server); ; {
		text, err := readValue(r)
		if err != nil || !c.reply(text) {
			return
		}
	}
}

// reply deals with what the server said, and reports whether the connection goes on.
func (c *conn) reply(text []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var f Fault
	if text[0] != '>' && len(c.owed) > 0 { // else it is no reply to a command
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
