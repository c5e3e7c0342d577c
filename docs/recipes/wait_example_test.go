package recipes

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// webhooks accepts ten webhooks per second from each tenant. More of them wait, up to five seconds, instead of being denied.
func webhooks(tenant core.KeyFunc) core.Rule {
	return core.Rule{
		Name: "webhooks", Key: tenant, Routes: []string{"POST /webhooks"},
		Limits: []core.Limit{core.PerSecond(10)}, MaxWait: 5 * time.Second,
	}
}

// waitingServer returns a server whose waiting requests get a 503 at once when stop is called. Call stop, then Shutdown.
func waitingServer(addr string, limiter *core.Limiter, next http.Handler) (server *http.Server, stop context.CancelFunc) {
	running, stop := context.WithCancel(context.Background())
	return &http.Server{
		Addr:        addr,
		Handler:     stdlib.New(limiter)(next),
		BaseContext: func(net.Listener) context.Context { return running },
	}, stop
}
