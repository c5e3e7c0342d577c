package redisx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/redistest"
)

// A server is so far away that a connection takes longer than a decision may wait. Connections come up outside of decisions, at
// the start and again after the server was away.
func TestConnectionsAreOpenedOutsideOfDecisions(t *testing.T) {
	const roundTrip = 300 * time.Millisecond
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true, DialTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	proxy.Fault.Store(redistest.Fault{Delay: roundTrip})
	rule := core.Rule{Name: "r", Limits: []core.Limit{core.PerDay(1000)}, OnFailure: core.FailClosed}
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client)), core.WithTimeout(2*roundTrip)))
	decides := func() bool {
		_, err := l.Take(context.Background(), core.Claim{Rule: "r", Key: "k"})
		if err != nil && !errors.Is(err, core.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	}
	redistest.Wait(t, "the server to decide", decides)
	proxy.Refuse()
	if decides() {
		t.Error("a decision without a server")
	}
	proxy.Accept(t)
	redistest.Wait(t, "the server to decide again", decides)
}
