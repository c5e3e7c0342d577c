package client_test

import (
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/internal/expect"
)

// TestOnWaitPanicsAfterTheCallWasAdmitted checks that no call waits for a call whose OnWait panics after a response has admitted it.
func TestOnWaitPanicsAfterTheCallWasAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			left := "50"
			switch r.URL.RawQuery {
			case "slow":
				time.Sleep(20 * time.Second)
			case "last":
				left = "0"
			}
			write(w, 200, gitHub("60", left, "10", "core")...)
		})
		tr := &client.Transport{OnWait: func(r *http.Request, _ time.Duration) {
			if r.URL.RawQuery == "panic" {
				time.Sleep(25 * time.Second)
				panic("callback")
			}
		}}
		c := s.over(tr)
		var all sync.WaitGroup
		get(t, c, "/?known")
		all.Go(func() { get(t, c, "/?slow") })
		synctest.Wait()
		get(t, c, "/?last")
		all.Go(func() {
			call := func() { _, _ = tr.RoundTrip(request(t, "http://api.example/?panic")) } // the slow response admits it
			expect.Fails(t, expect.PanicOf(call), "the panic of OnWait")
		})
		all.Wait()
		begun := time.Now()
		get(t, c, "/")
		expect.AtMost(t, time.Since(begun), 0, "the next request waited")
	})
}

// TestDeniedRequestKeepsItsPlace checks that a denied request is sent again before requests that arrived while it was in flight.
func TestDeniedRequestKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			order = append(order, r.URL.RawQuery)
			n := len(order)
			mu.Unlock()
			switch n {
			case 1:
				write(w, 200)
			case 2:
				time.Sleep(2 * time.Second)
				write(w, 429, "Retry-After", "10")
			case 3:
				write(w, 429, "Retry-After", "20")
			default:
				write(w, 200)
			}
		})
		c := s.over(&client.Transport{})
		get(t, c, "/?known")
		var all sync.WaitGroup
		for _, query := range []string{"first", "second"} {
			all.Go(func() { get(t, c, "/?"+query) })
			time.Sleep(time.Second / 2)
		}
		all.Wait()
		expect.Elements(t, order, []string{"known", "first", "second", "first", "second"}, "sent")
	})
}

// TestRequestWaitsForTheLongerLimit checks that a request waits for the limit that is closed longest, whatever their order in the
// response.
func TestRequestWaitsForTheLongerLimit(t *testing.T) {
	for _, field := range []string{`"short";r=0;t=20, "long";r=0;t=90`, `"long";r=0;t=90, "short";r=0;t=20`} {
		synctest.Test(t, func(t *testing.T) {
			c := serve(func(w http.ResponseWriter, _ *http.Request) { write(w, 200, "RateLimit", field) }).over(&client.Transport{})
			get(t, c, "/")
			_, err := c.Get("http://api.example/")
			if e := limitedBy(t, err); e.Policy != "long" || !e.Until.Equal(start2000.Add(90*time.Second)) || time.Since(start2000) > 0 {
				t.Errorf("%s: %+v after %v, want the long one at once", field, e, time.Since(start2000))
			}
		})
	}
}

// after sends a request for each response of a script, and then n more at once. It returns when it sent these, counted from the
// last response of the script.
func after(t *testing.T, n int, script ...response) []time.Duration {
	t.Helper()
	i := 0
	s := serve(func(w http.ResponseWriter, r *http.Request) {
		if i < len(script) {
			i++
			write(w, script[i-1].status, script[i-1].fields...)
			return
		}
		time.Sleep(time.Millisecond)
		write(w, 200, script[len(script)-1].fields...)
	})
	c := s.over(&client.Transport{})
	for range script {
		get(t, c, "/")
	}
	start := time.Now()
	var all sync.WaitGroup
	for range n {
		all.Go(func() { get(t, c, "/") })
	}
	all.Wait()
	return s.requests(start)[len(script):]
}

func TestRareHeaderValues(t *testing.T) {
	ietf := func(policy, state string) response {
		return response{200, []string{"RateLimit-Policy", policy, "RateLimit", state}}
	}
	for _, row := range []struct {
		name   string
		script []response
		n      int
		from   time.Duration // the time span in which the first and the last of the n are sent
		to     time.Duration
	}{
		{"Remaining 0 and a Reset that is past: a short pause", []response{{200, gitHub("9", "0", "900000000", "")}}, 1, time.Second, 1100 * time.Millisecond},
		{"Remaining 0 without a Reset: the same", []response{{200, []string{"X-RateLimit-Remaining", "0"}}}, 1, time.Second, 1100 * time.Millisecond},
		{"a negative Remaining of a 200 is none", []response{{200, []string{"X-RateLimit-Remaining", "-1", "X-RateLimit-Reset", "9"}}}, 5, 0, 0},
		{"bytes are not requests", []response{ietf(`"a";q=9000;w=60;qu="content-bytes"`, `"a";r=3;t=30`)}, 9, 0, 0},
		{"no bytes are left", []response{ietf(`"a";q=9000;w=60;qu="content-bytes"`, `"a";r=0;t=30`)}, 1, 30 * time.Second, 33 * time.Second},
		{"requests are", []response{ietf(`"a";q=9000;w=60;qu="requests"`, `"a";r=3;t=1`)}, 4, 0, 2 * time.Millisecond},
		{"what runs at once is not awaited", []response{ietf(`"a";q=1;qu="concurrent-requests"`, `"a";r=0`)}, 5, 0, 0},
		{"no more fields: no limit", []response{{200, gitHub("9", "0", "5", "")}, {200, nil}}, 20, 0, 0},
	} {
		t.Run(row.name, inBubble(func(t *testing.T) {
			sent := after(t, row.n, row.script...)
			if first, last := sent[0], sent[len(sent)-1]; first < row.from || last > row.to {
				t.Errorf("sent from %v to %v, want %v to %v", first, last, row.from, row.to)
			}
		}))
	}
}

// TestPaceWithoutALimit checks that a window without a limit field is paced by the highest Remaining so far.
func TestPaceWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left atomic.Int64
		left.Store(100)
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			n := strconv.FormatInt(left.Add(-1), 10)
			write(w, 200, "RateLimit", `"a";r=`+n+`;t=`+seconds(time.Until(start2000.Add(time.Minute))))
		})
		sent := spend(t, s, &client.Transport{MaxWait: time.Hour}, 100)
		expect.True(t, sent[79] <= 0 && sent[99] >= 45*time.Second,
			"request 80 is sent at %v and 100 at %v, want the last 20 evenly over the minute", sent[79], sent[99])
	})
}

// TestErrorResponseKeepsTheLimit checks that a budget keeps its limit after a 5xx without fields.
func TestErrorResponseKeepsTheLimit(t *testing.T) {
	for _, status := range []int{500, 502} {
		synctest.Test(t, func(t *testing.T) {
			sent := after(t, 5, response{200, gitHub("9", "0", "5", "")}, response{status, nil})
			expect.True(t, sent[0] <= 0 && sent[1] == time.Millisecond, "after %d sent at %v, want one ahead of the others", status, sent)
		})
	}
}

// TestNoGoroutines checks that a Transport starts no goroutine, not even while calls wait. In every other test,
// synctest checks that none is left behind.
func TestNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{Base: usedUp(3 * time.Second)}
		trip := func() {
			if resp, err := tr.RoundTrip(request(t, "http://api.example/")); err == nil {
				resp.Body.Close()
			}
		}
		trip()
		before := bubbled()
		var all sync.WaitGroup
		for range 10 {
			all.Go(trip)
		}
		synctest.Wait()
		expect.Equal(t, bubbled()-before, 10, "goroutines for 10 calls that wait")
		all.Wait()
	})
}

// bubbled returns the number of goroutines in bubbles. The goroutines of a server that another test has closed may end at any time.
func bubbled() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ", synctest bubble ")
}

// free is a Base that responds at once, as GitHub does when many requests are left.
func free() roundTrip {
	header := http.Header{
		"Date":                  {"Sat, 01 Jan 2000 00:00:00 GMT"},
		"X-Ratelimit-Limit":     {"5000"},
		"X-Ratelimit-Remaining": {"4990"},
		"X-Ratelimit-Used":      {"10"},
		"X-Ratelimit-Reset":     {"946688400"},
		"X-Ratelimit-Resource":  {"core"},
	}
	resp := &http.Response{StatusCode: 200, Header: header, Body: http.NoBody}
	return func(*http.Request) (*http.Response, error) { return resp, nil }
}

// TestAllocations checks what a Transport allocates for a request that need not wait.
func TestAllocations(t *testing.T) {
	tr := &client.Transport{Base: free()}
	r := request(t, "https://api.github.com/repos/golang/go/issues")
	r.Header.Set("Authorization", "Bearer ghp_0123456789012345678901234567890123456789")
	expect.AtMost(t, testing.AllocsPerRun(1000, func() { _, _ = tr.RoundTrip(r) }), 2, "allocations at most")
}
