package client_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

// TestNoGoroutines checks that a Transport starts none, not even while calls wait. That none is left behind is what synctest checks in
// every test.
func TestNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{Base: usedUp(3 * time.Second)}
		trip := func() {
			if resp, err := tr.RoundTrip(request(t, "http://api.example/")); err == nil {
				resp.Body.Close()
			}
		}
		trip()
		before := runtime.NumGoroutine()
		var all sync.WaitGroup
		for range 10 {
			all.Go(trip)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n != 10 {
			t.Errorf("%d goroutines for 10 calls that wait", n)
		}
		all.Wait()
	})
}
