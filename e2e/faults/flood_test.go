package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

const (
	floodLimit = 1000 // each client may have that much
	floodOf    = "SPILLGATE_FLOOD"
)

// One client floods a server with 2,000 connections and varying costs, so that the process lacks CPU while Redis works. The
// client is admitted at most what Redis and this process each admit, and no other client is denied.
func TestFloodThatTakesTheCPU(t *testing.T) {
	for mode := range modes {
		for name, heeds := range map[string]bool{"default client": false, "ContextTimeoutEnabled": true} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				for range 3 { // on a machine that is busy besides, Redis may really be late, which fails the calls of that moment
					if failed, h := testFlood(t, mode, heeds); failed == 0 && !h.Down && h.Since.IsZero() {
						return
					}
				}
				t.Error("the breaker opened, or others got a 503, in each attempt")
			})
		}
	}
}

// testFlood floods a server once. It returns how many requests of others got a 503, and the health of the store.
func testFlood(t *testing.T, mode string, heeds bool) (failed int, h core.Health) {
	wantNoLeaks(t)
	expect.KeepLog(t)
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, ContextTimeoutEnabled: heeds})
	defer client.Close()
	rule := core.Rule{Name: mode, Limits: []core.Limit{slowly(floodLimit)}, OnFailure: modes[mode]}
	rule.Key = func(r *http.Request) (string, error) { return r.Header.Get("X-Client"), nil }
	rule.Cost = func(r *http.Request) int { return 1 + int(r.ContentLength) }
	var served atomic.Int64
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client)), core.WithObserver(func(_ context.Context, o *core.Observation) {
		if o.Err == nil && o.Allowed && o.Claims[0].Key == "flood" {
			served.Add(int64(o.Claims[0].Cost))
		}
	})))
	server := httptest.NewServer(stdlib.New(l)(http.NotFoundHandler()))
	defer server.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), floodOf+"="+server.URL), os.Stderr
	out, err := cmd.Output()
	var others map[int]int
	if err == nil {
		err = json.Unmarshal(out, &others)
	}
	must.True(t, err == nil, "the client: %v\n%s", err, out)
	answered, failed := others[http.StatusNotFound], others[http.StatusServiceUnavailable]
	delete(others, http.StatusNotFound)
	delete(others, http.StatusServiceUnavailable)
	h = l.StoreHealth()
	if n := served.Load(); n > 2*floodLimit && h.Since.IsZero() { // an outage lifts the limit of a rule that fails open
		t.Errorf("a cost of %d was served, want %d at most", n, 2*floodLimit)
	}
	t.Logf("a cost of %d was served, %d of %d requests of others failed, %+v", served.Load(), failed, failed+answered, h)
	if len(others) > 0 || answered == 0 || mode != "closed" && failed > 0 {
		t.Errorf("the handler answered %d requests of others, %d got a 503, and others %v", answered, failed, others)
	}
	return failed, h
}

// flood is a process that sends requests of one client on 2,000 connections, and a few of others. It prints the statuses that the
// others got.
func flood(url string) {
	const connections, others, lasts = 2000, 8, 3 * time.Second
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: connections + others}}
	send := func(from string, length int) (status int) {
		r, _ := http.NewRequest(http.MethodPost, url, bytes.NewReader(make([]byte, length)))
		r.Header.Set("X-Client", from)
		response, err := client.Do(r)
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	statuses := make(map[int]int) // of others
	end := time.Now().Add(lasts)
	for i := range connections {
		clients.Go(func() {
			for n := i; time.Now().Before(end); n += 7 {
				send("flood", n%floodLimit)
			}
		})
	}
	for i := range others {
		clients.Go(func() {
			for seen := false; !seen || time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if status := send(fmt.Sprint("other ", i), 0); status != 0 {
					seen = true
					mu.Lock()
					statuses[status]++
					mu.Unlock()
				}
			}
		})
	}
	clients.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(statuses)
}
