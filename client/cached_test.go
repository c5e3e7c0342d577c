package client_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

// TestCachedResponsesAreIgnored checks that no request waits for an instant in a response that a cache stored for
// another client. A cached denial is returned unchanged.
func TestCachedResponsesAreIgnored(t *testing.T) {
	for age, cached := range map[string]bool{"1": true, "86400": true, "99999999999999999999": true, " 7 , 0": true, "0": false, "": false, "-5": false, "soon": false, "0, 7": false} {
		for _, a := range announcements {
			t.Run(fmt.Sprintf("Age %q, %s", age, a.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := 0
					s := serve(func(w http.ResponseWriter, r *http.Request) {
						if n++; n > 1 {
							write(w, 200)
							return
						}
						write(w, a.status, append(a.fields(time.Now(), start2000.Add(time.Hour)), "Age", age)...)
					})
					c := s.over(&client.Transport{MaxWait: -1})
					if status := get(t, c, "/"); status != a.status {
						t.Fatalf("status %d, want %d", status, a.status)
					}
					if _, err := c.Do(request(t, "http://api.example/")); (err == nil) != cached {
						t.Errorf("the next request: %v; want an error: %v", err, !cached)
					}
				})
			})
		}
	}
}

// TestCachedResponsesHideNoLimit checks that a known limit stays known after a cached response for the same route,
// and that an unknown route still waits for the limit.
func TestCachedResponsesHideNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		left, denied := 3, 0
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if r.URL.RawQuery == "cached" {
				write(w, 200, append(gitHub("100", "90", "5", "core"), "Age", "60")...)
				return
			}
			status := 200
			if left--; left < 0 && time.Since(start2000) < time.Minute {
				status = 429
				denied++
			}
			write(w, status, gitHub("100", fmt.Sprint(max(left, 0)), epoch(start2000.Add(time.Minute)), "core")...)
		})
		c := s.over(&client.Transport{NoPace: true, MaxWait: 2 * time.Minute})
		get(t, c, "/a")
		get(t, c, "/a?cached")
		get(t, c, "/b?cached")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { get(t, c, []string{"/a", "/b"}[i%2]) })
		}
		all.Wait()
		if denied > 1 { // one request may try whether an unknown route has the limit of the key
			t.Errorf("%d requests were denied, want at most one", denied)
		}
	})
}

// TestCachedResponsesAreServedTogether checks that requests do not wait for each other if all responses come from a cache.
func TestCachedResponsesAreServedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			write(w, 200, append(gitHub("100", "0", "3600", "core"), "Age", "60")...)
		})
		c := s.over(&client.Transport{})
		get(t, c, "/0")
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() { get(t, c, fmt.Sprint("/", i%5)) })
		}
		all.Wait()
		if took := time.Since(start2000); took > 2*time.Second {
			t.Errorf("%v, want 2s: one request alone, then the others together", took)
		}
	})
}
