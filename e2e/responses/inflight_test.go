package responses

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// pipes is a listener whose connections are pipes, so that time passes in a synctest bubble while both ends wait.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

func serveInBubble(t *testing.T, h http.Handler) *http.Client {
	l := &pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: h}
	transport := &http.Transport{DialContext: l.dial}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return &http.Client{Transport: transport}
}

// TestThreeMinutesOfServerSentEvents sends a second request every 500ms. It is denied until the stream has ended, after nine renewals.
func TestThreeMinutesOfServerSentEvents(t *testing.T) {
	for _, f := range apps.Frameworks {
		t.Run(f.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := core.Must(core.New([]core.Rule{core.AtOnce(1).By(wire.Anyone)}))
				client := serveInBubble(t, f.Build(apps.Limited(l, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					for i := range 180 {
						_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
						w.(http.Flusher).Flush()
						time.Sleep(time.Second)
					}
				})))
				get := func() *http.Response {
					resp, err := client.Do(wire.Request(t, http.MethodGet, "http://pipe/", nil))
					must.Do(t, err)
					return resp
				}
				begun, stream, ended := time.Now(), get(), make(chan struct{})
				go func() {
					defer close(ended)
					n, err := io.Copy(io.Discard, stream.Body)
					expect.True(t, n >= 180*9 && err == nil, "the stream had %d bytes and the error %v", n, err)
				}()
				for time.Sleep(250 * time.Millisecond); time.Since(begun) < 3*time.Minute; time.Sleep(500 * time.Millisecond) {
					resp := get()
					resp.Body.Close()
					if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
						t.Errorf("after %v: status %d, Retry-After %q", time.Since(begun), resp.StatusCode, resp.Header.Get("Retry-After"))
						break
					}
				}
				<-ended
				synctest.Wait()
				resp := get()
				expect.Equal(t, resp.StatusCode, http.StatusOK, "status after the stream has ended")
				_, _ = io.Copy(io.Discard, resp.Body)
			})
		})
	}
}
