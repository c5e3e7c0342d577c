package responses

import (
	"context"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

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
		must.Do(t, err)
		expect.Elements(t, resp.Header.Values("X-RateLimit-Remaining"), []string{"0"}, "Remaining")
		for _, want := range []string{"one", "two"} {
			must.Do(t, conn.Write(ctx, websocket.MessageText, []byte(want)))
			_, got, err := conn.Read(ctx)
			must.True(t, err == nil && string(got) == want, "echo %q, %v, want %q", got, err, want)
		}
		expect.NoError(t, conn.Close(websocket.StatusNormalClosure, ""), "Close")
		if _, resp, err = websocket.Dial(ctx, s.URL, options); err == nil || resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("the second request: %v, %v; want 429 and Retry-After", resp, err)
		}
	})
}
