package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/telemetry"
)

const (
	maxViewers   = 100              // streams that are open at once
	writeTimeout = 10 * time.Second // for one event
)

// A handler serves the page.
type handler struct {
	telemetry *telemetry.Telemetry
	authorize func(*http.Request) bool
	hosts     map[string]bool // hosts under which the page may be opened, apart from loopback
	origin    http.CrossOriginProtection
	viewers   atomic.Int64
	places    places

	mu    sync.Mutex
	stops map[*http.Server]chan struct{} // closed when the server is shut down
}

// events sends an event per second until the client disconnects or the server is shut down. The first event has the
// history of the last hour, so the page can reconnect at any time.
// It is only for the page itself: the browser of an operator who visits another website could otherwise take all streams.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	asWrite := *r
	asWrite.Method = http.MethodPost // CrossOriginProtection admits every GET
	if err := h.origin.Check(&asWrite); err != nil {
		http.Error(w, "events are for the page only", http.StatusForbidden)
		return
	}
	if h.viewers.Add(1) > maxViewers {
		h.viewers.Add(-1)
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	defer h.viewers.Add(-1)
	rule := r.URL.Query().Get("rule")
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	stop := h.stopped(r)
	for seconds := historySeconds; ; seconds = recentSeconds {
		if send(w, h.report(r, rule, seconds)) != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-stop:
			return
		}
	}
}

// send writes an event.
func send(w http.ResponseWriter, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // replaces the server's deadline, which is for short responses
	if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
		return err
	}
	return c.Flush()
}

// stopped returns a channel that is closed when the server of r is shut down, because Shutdown waits for open requests.
// It is nil if there is no server.
func (h *handler) stopped(r *http.Request) <-chan struct{} {
	s, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stops[s] == nil {
		stop := make(chan struct{})
		h.stops[s] = stop
		s.RegisterOnShutdown(sync.OnceFunc(func() { close(stop) }))
	}
	return h.stops[s]
}
