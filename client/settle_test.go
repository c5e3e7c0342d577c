package client_test

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

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

// TestRareHeaderValues covers rare header values.
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
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := after(t, row.n, row.script...)
				if first, last := sent[0], sent[len(sent)-1]; first < row.from || last > row.to {
					t.Errorf("sent from %v to %v, want %v to %v", first, last, row.from, row.to)
				}
			})
		})
	}
}

// TestNetworkErrorChangesNoLimit checks that the client does not take a route for one without limits after a 502 from
// a proxy.
func TestNetworkErrorChangesNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/a" && time.Since(start2000) == 0:
				write(w, 200, gitHub("100", "5", "30", "")...)
			case r.URL.Path == "/b" && time.Since(start2000) == 0:
				write(w, 502)
			case time.Since(start2000) < 30*time.Second:
				write(w, 200, gitHub("100", "0", "29", "")...)
			default:
				write(w, 200, gitHub("100", "90", "30", "")...)
			}
		})
		c := s.over(&client.Transport{})
		get(t, c, "/a")
		get(t, c, "/b")
		time.Sleep(time.Second)
		get(t, c, "/a")
		get(t, c, "/b")                              // tries, because the limit is not known
		if n := len(s.requests(start2000)); n != 4 { // and learns the limit
			t.Fatalf("%d requests", n)
		}
		if get(t, c, "/b"); time.Since(start2000) < 30*time.Second {
			t.Errorf("sent after %v, want 30s", time.Since(start2000))
		}
	})
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
		if sent[79] > 0 || sent[99] < 45*time.Second {
			t.Errorf("request 80 is sent at %v and 100 at %v, want the last 20 evenly over the minute", sent[79], sent[99])
		}
	})
}

// TestErrorResponseKeepsTheLimit checks that a budget keeps its limit after a 5xx without fields.
func TestErrorResponseKeepsTheLimit(t *testing.T) {
	for _, status := range []int{500, 502} {
		synctest.Test(t, func(t *testing.T) {
			sent := after(t, 5, response{200, gitHub("9", "0", "5", "")}, response{status, nil})
			if sent[0] > 0 || sent[1] != time.Millisecond {
				t.Errorf("after %d sent at %v, want one ahead of the others", status, sent)
			}
		})
	}
}
