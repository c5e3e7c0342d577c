package recipes

import (
	"context"
	"errors"
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// streams admits three event streams or WebSockets of a user at once, and 30 an hour.
func streams(user core.KeyFunc) core.Rule {
	return core.Rule{
		Name:   "streams",
		Key:    user,
		Routes: []string{"GET /events", "GET /socket"},
		Limits: []core.Limit{core.AtOnce(3), core.PerHour(30)},
	}
}

// events is an event stream. Its place is free as soon as it returns.
func events(w http.ResponseWriter, r *http.Request, news <-chan string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case text := <-news:
			if _, err := w.Write([]byte("data: " + text + "\n\n")); err != nil {
				return
			}
		}
	}
}

// perMessage is a limiter for the messages of a WebSocket: a burst of twenty, then ten per second. No adapter mounts it.
func perMessage() (*core.Limiter, error) {
	return core.New([]core.Rule{{Name: "messages", Limits: []core.Limit{core.PerSecond(10).WithBurst(20)}}})
}

var errTooFast = errors.New("too many messages")

// read handles the messages of one connection, which next returns. It ends the connection of a client that sends too fast.
func read(ctx context.Context, messages *core.Limiter, user string, next func() (string, error), handle func(string)) error {
	for {
		text, err := next()
		if err != nil {
			return err
		}
		d, err := messages.Take(ctx, core.Claim{Rule: "messages", Key: user})
		if err != nil {
			return err
		}
		if !d.Allowed {
			return errTooFast // or wait for d.RetryAfter() and take again, which slows the client down
		}
		handle(text)
	}
}
