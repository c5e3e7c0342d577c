package processes

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// places says how many requests of a host may run at once, by the suffix of the host's name.
var places = map[string]int{"twenty": 20, "one": 1}

// holdAtLeast is how long a request that is not renewed keeps its place.
const holdAtLeast = 60 * time.Second

// occupied returns an application that runs at most n requests at once, in all processes. The header Running is the
// number of requests that run, by a counter in Redis. Each request runs until n have run at once, and 30ms longer.
// With the path /stay, it runs until the client disconnects.
func occupied(store core.Store, client *redis.Client, n int) http.Handler {
	rule := core.AtOnce(n).By(keyOf)
	rule.Name, rule.OnFailure = "places "+strconv.Itoa(n), core.FailClosed
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(store), core.WithTimeout(wire.Timeout)))
	giveUp := time.Now().Add(wire.Timeout)
	return apps.Frameworks[0].Build(apps.App{Guards: []apps.Guard{{Limiter: l}}, Routes: []apps.Route{
		{Pattern: "/stay", Handler: func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
		{Pattern: "/", Handler: func(w http.ResponseWriter, r *http.Request) {
			ctx := context.WithoutCancel(r.Context())
			running, err := client.Incr(ctx, "running:"+r.Host).Result()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			defer client.Decr(ctx, "running:"+r.Host)
			w.Header().Set("Running", strconv.FormatInt(running, 10))
			if running == int64(n) {
				client.Set(ctx, "full:"+r.Host, 1, 0)
			}
			for client.Exists(ctx, "full:"+r.Host).Val() == 0 && time.Now().Before(giveUp) {
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(30 * time.Millisecond)
		}},
	}})
}

// A visitor sends requests for one host to several processes.
type visitor struct {
	*testing.T
	host   string
	client *http.Client
}

func newVisitor(t *testing.T, host string) *visitor {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t, host, &http.Client{Transport: transport}}
}

// ask sends a request to the process at addr and returns the response, whose body is closed with the test or before.
func (v *visitor) ask(addr, path string) *http.Response {
	r := wire.Request(v, http.MethodGet, "http://"+addr+path, nil)
	r.Host = v.host
	resp, err := v.client.Do(r)
	if err != nil {
		v.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	v.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode == http.StatusTooManyRequests {
		expect.Equal(v, resp.Header.Get("Retry-After"), "1", "Retry-After while others run")
		resp.Body.Close()
	}
	return resp
}

// TestInFlightOfThreeProcesses sends 1,000 requests to three processes: at most 20 run at once, and sometimes exactly 20.
func TestInFlightOfThreeProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	addrs := [3]string{startChild(t, server.Addr), startChild(t, server.Addr), startChild(t, server.Addr)}
	v := newVisitor(t, "crowd-twenty")
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses, most := map[int]int{}, 0
	for i := range 50 {
		all.Go(func() {
			for range 20 {
				resp := v.ask(addrs[i%3], "/")
				resp.Body.Close()
				running, _ := strconv.Atoi(resp.Header.Get("Running"))
				mu.Lock()
				statuses[resp.StatusCode]++
				most = max(most, running)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	expect.Equal(t, most, 20, "requests that ran at once")
	expect.True(t, statuses[http.StatusOK] >= 20 && statuses[http.StatusOK]+statuses[http.StatusTooManyRequests] == 1000,
		"responses by status: %v", statuses)
}

// TestPlacesOfKilledProcess kills a process that runs 20 requests: their places stay taken.
func TestPlacesOfKilledProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	addr := startChild(t, server.Addr)
	doomed, process := startProcess(t, server.Addr)
	v := newVisitor(t, "killed-twenty")
	begun := time.Now()
	for range 20 {
		must.Equal(t, v.ask(doomed, "/stay").StatusCode, http.StatusOK, "status")
	}
	must.Do(t, process.Kill())
	if resp := v.ask(addr, "/stay"); resp.StatusCode != http.StatusTooManyRequests && time.Since(begun) < holdAtLeast {
		t.Errorf("status %d, %v after the first of 20 requests began", resp.StatusCode, time.Since(begun))
	}
}

// TestStreamReleasesItsPlace checks that a stream keeps its place until it ends.
func TestStreamReleasesItsPlace(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	addrs := [2]string{startChild(t, server.Addr), startChild(t, server.Addr)}
	v := newVisitor(t, "stream-one")
	stream := v.ask(addrs[0], "/stay")
	must.Equal(t, stream.StatusCode, http.StatusOK, "status")
	must.Equal(t, v.ask(addrs[1], "/stay").StatusCode, http.StatusTooManyRequests, "status for a second stream")
	stream.Body.Close()
	redistest.Wait(t, "the place of the stream", func() bool { return v.ask(addrs[1], "/stay").StatusCode == http.StatusOK })
}
