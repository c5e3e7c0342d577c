package responses

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/spillgate/spillgate/e2e/internal/wire"
)

// TestServerSentEvents checks that each event gets to the client before the next is written.
func TestServerSentEvents(t *testing.T) {
	read := make(chan bool)
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-read:
			case <-r.Context().Done():
				return
			}
		}
	}
	eachOf(t, 1, h, func(t *testing.T, s *wire.Server) {
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		wire.WantRemaining(t, resp.Header, "0")
		lines := bufio.NewReader(resp.Body)
		for i := range 3 {
			event, err := lines.ReadString('\n')
			if _, blank := lines.ReadString('\n'); err != nil || blank != nil || event != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("event %q, %v, %v", event, err, blank)
			}
			read <- true
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Errorf("after the last event: %q, %v", rest, err)
		}
	})
}

// TestWebSocket checks that a connection is upgraded, and that a denied one gets the response. WebSocket uses HTTP/1.1,
// also with a server that offers HTTP/2.
func TestWebSocket(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}
	eachOf(t, 1, h, func(t *testing.T, s *wire.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), wire.Timeout)
		defer cancel()
		options := &websocket.DialOptions{HTTPClient: s.Client()}
		conn, resp, err := websocket.Dial(ctx, s.URL, options)
		if err != nil {
			t.Fatal(err)
		}
		wire.WantRemaining(t, resp.Header, "0")
		for _, want := range []string{"one", "two"} {
			if err := conn.Write(ctx, websocket.MessageText, []byte(want)); err != nil {
				t.Fatal(err)
			}
			if _, got, err := conn.Read(ctx); err != nil || string(got) != want {
				t.Fatalf("echo %q, %v, want %q", got, err, want)
			}
		}
		if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
		if _, resp, err = websocket.Dial(ctx, s.URL, options); err == nil || resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("the second request: %v, %v; want 429 and Retry-After", resp, err)
		}
	})
}

// TestFullDuplex checks that a handler can write its response while it still reads the body.
func TestFullDuplex(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			_, _ = fmt.Fprintln(w, strings.ToUpper(lines.Text()))
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
		}
	}
	eachOf(t, 1, h, func(t *testing.T, s *wire.Server) {
		body, send := io.Pipe()
		sent := make(chan bool)
		go func() {
			defer send.Close()
			for _, line := range []string{"one", "two"} {
				_, _ = io.WriteString(send, line+"\n")
				sent <- true
			}
		}()
		resp, err := s.Client().Do(wire.Request(t, http.MethodPost, s.URL, body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for _, want := range []string{"ONE\n", "TWO\n"} {
			if got, err := lines.ReadString('\n'); err != nil || got != want {
				t.Fatalf("answer %q, %v, want %q", got, err, want)
			}
			<-sent
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 { // a client that leaves before makes the last Flush fail
			t.Errorf("after the last answer: %q, %v", rest, err)
		}
	})
}

// TestWriteDeadline checks that a deadline which a handler sets ends its response, however long the server's is.
func TestWriteDeadline(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_, _ = io.WriteString(w, "begun")
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(wire.Timeout)); err != nil {
			t.Error(err)
		}
		if err := c.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "too late")
	}
	eachOf(t, 1, h, func(t *testing.T, s *wire.Server) {
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); err == nil || strings.Contains(string(got), "late") {
			t.Errorf("the response is %q, %v; want it cut off at the deadline", got, err)
		}
	})
}
