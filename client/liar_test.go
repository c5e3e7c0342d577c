package client_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// lies are field values that no server should send.
var lies = []string{
	"", " ", "0", "-0", "-1", "1", "00", "+5", "1e9", "0x10", "1.5", ".5", "NaN", "Inf", "-Inf", "1e309", "null", "undefined", "true",
	"946684799", "946684800", "1700000000", "99999999999", "946684800000", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
	"99999999999999999999999999999999", "1, 2", "5;w=60", "Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT",
	"2000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "soon", "\x00", "\xff\xfe", "١٢", `"`, `"a`, `"a";`, `"a";r`, `"a";r=`, `"a";r=0`, `"a";r=-1;t=-1`,
	`"a";r=0;t=999999999999999`, `"a";r=1;t=9223372036854775807`, `"a";r=99999999999999999999;t=1`, `a;r=0;t=0,,b;r=1`, `("a" "b");r=0`, `"a";q=0;w=0`,
	`"a";q=1;w=999999999999999`, `"a";q=999999999999999;w=1`, `limit=5, remaining=0, reset=-3`, `limit=, remaining=, reset=`, `=;=,=`, ":;:=,\\", `"\`,
}

// lieFields are the header fields that a Transport reads.
var lieFields = []string{
	"Date", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Resource",
	"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit", "RateLimit-Policy",
}

func lie(w http.ResponseWriter, random *rand.Rand) {
	for _, name := range lieFields {
		for range random.IntN(3) {
			w.Header().Add(name, lies[random.IntN(len(lies))])
		}
	}
	w.WriteHeader([]int{200, 200, 304, 403, 429, 429, 500, 503}[random.IntN(8)])
}

// TestWrongFieldsDoNoHarm checks that no response makes a Transport panic, wait longer than MaxWait, or send forever.
func TestWrongFieldsDoNoHarm(t *testing.T) {
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			constant := random.Uint64()
			var mu sync.Mutex
			s := serve(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if seed%2 == 0 {
					lie(w, random)
				} else {
					lie(w, rand.New(rand.NewPCG(constant, 2))) // the same fields each time
				}
			})
			c := s.over(&client.Transport{})
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					for range 3 {
						start := time.Now()
						if resp, err := c.Get(fmt.Sprint("http://api.example/", i%3)); err == nil {
							resp.Body.Close()
						}
						expect.AtMost(t, time.Since(start), time.Minute, "seed %d: a request", seed)
					}
				})
			}
			all.Wait()
			expect.AtMost(t, len(s.requests(start2000)), 10*3*8, "seed %d: requests sent for 30", seed)
		})
	}
}

// TestCachedResponsesAreIgnored checks that no request waits for an instant in a response that a cache stored for
// another client. A cached denial is returned unchanged.
func TestCachedResponsesAreIgnored(t *testing.T) {
	for age, cached := range map[string]bool{"1": true, "86400": true, "99999999999999999999": true, " 7 , 0": true, "0": false, "": false, "-5": false, "soon": false, "0, 7": false} {
		for _, a := range announcements {
			t.Run(fmt.Sprintf("Age %q, %s", age, a.name), inBubble(func(t *testing.T) {
				n := 0
				s := serve(func(w http.ResponseWriter, r *http.Request) {
					if n++; n > 1 {
						write(w, 200)
						return
					}
					write(w, a.status, append(a.fields(time.Now(), start2000.Add(time.Hour)), "Age", age)...)
				})
				c := s.over(&client.Transport{MaxWait: -1})
				must.Equal(t, get(t, c, "/"), a.status, "status")
				_, err := c.Do(request(t, "http://api.example/"))
				expect.True(t, (err == nil) == cached, "the next request: %v; want an error: %v", err, !cached)
			}))
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
