package processes

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

// logins limits failing requests by host. The host's name ends with the name of an algorithm.
var logins = map[string]core.Algorithm{"login-bucket": core.TokenBucket, "login-log": core.SlidingLog}

// failing returns an application in which every request fails, and which allows five failures in 15 minutes.
func failing(store core.Store, a core.Algorithm) http.Handler {
	rule := core.Every(5, 15*time.Minute).Using(a).By(keyOf)
	rule.Name, rule.OnFailure, rule.CostAfter = "login "+a.String(), core.FailClosed, core.Failures
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(store), core.WithTimeout(wire.Timeout)))
	return apps.Frameworks[0].Build(apps.Limited(l, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
}

// TestFailuresOfThreeProcesses sends 1,000 failing logins in parallel: the handler runs for exactly five.
func TestFailuresOfThreeProcesses(t *testing.T) {
	server := redistest.Start(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 50}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: wire.Timeout}
	addrs := [3]string{startChild(t, server.Addr), startChild(t, server.Addr), startChild(t, server.Addr)}
	for host := range logins {
		t.Run(strings.TrimPrefix(host, "login-"), func(t *testing.T) {
			var all sync.WaitGroup
			var failed, denied atomic.Int32
			for i := range 50 { // so that no request waits for a connection
				all.Go(func() {
					for range 20 {
						switch statusOf(t, client, addrs[i%3], host) {
						case http.StatusUnauthorized:
							failed.Add(1)
						case http.StatusTooManyRequests:
							denied.Add(1)
						}
					}
				})
			}
			all.Wait()
			expect.True(t, failed.Load() == 5 && denied.Load() == 995,
				"%d failed and %d were denied, want 5 and 995", failed.Load(), denied.Load())
		})
	}
}

// statusOf sends a request for a host to addr and returns the status.
func statusOf(t *testing.T, client *http.Client, addr, host string) int {
	r := wire.Request(t, http.MethodGet, "http://"+addr, nil)
	r.Host = host
	resp, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
