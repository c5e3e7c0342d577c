package client_test

import (
	"net/http"
	"slices"
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

// TestResponsePostponesOverdue checks that requests wait for the requests in flight until ten seconds after the last
// response, not after the last request.
func TestResponsePostponesOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			left := "3"
			switch r.URL.RawQuery {
			case "hang":
				<-r.Context().Done()
			case "slow":
				time.Sleep(8 * time.Second)
				left = "2"
			}
			write(w, 200, gitHub("100", left, epoch(start2000.Add(time.Hour)), "")...)
		})
		c := s.over(&client.Transport{NoPace: true})
		get(t, c, "/")
		hang(t, c, "/")
		hang(t, c, "/")
		get(t, c, "/?slow")
		if get(t, c, "/"); time.Since(start2000) != 18*time.Second {
			t.Errorf("sent after %v, want ten seconds after the response", time.Since(start2000))
		}
	})
}

// hang sends a GET request that gets no response before the test ends.
func hang(t *testing.T, c *http.Client, path string) {
	t.Helper()
	r := request(t, "http://api.example"+path+"?hang").WithContext(t.Context())
	go func() { _, _ = c.Do(r) }()
	synctest.Wait()
}

// TestLateResponseOpensItsRoute checks that requests that wait for the first response of their route are sent when it
// arrives, although its request was sent before the server was known to have limits.
func TestLateResponseOpensItsRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.RawQuery == "hang":
				<-r.Context().Done()
			case r.URL.Path == "/a" && time.Since(start2000) == 0:
				time.Sleep(3 * time.Second)
				write(w, 200)
			case r.URL.Path == "/limited":
				write(w, 200, gitHub("100", "90", "3600", "core")...)
			default:
				write(w, 200)
			}
		})
		c := s.over(&client.Transport{})
		get(t, c, "/")
		var all sync.WaitGroup
		all.Go(func() { get(t, c, "/a") })
		synctest.Wait()
		time.Sleep(time.Second)
		get(t, c, "/limited")
		hang(t, c, "/a")
		if get(t, c, "/a"); time.Since(start2000) != 3*time.Second {
			t.Errorf("sent after %v, want when the first of its route was answered", time.Since(start2000))
		}
		all.Wait()
	})
}

// TestResponseOfAnotherRouteOpensALimit checks that requests that wait for a trial are sent when another route, not
// known to share their limit, gets a response that says that something remains.
func TestResponseOfAnotherRouteOpensALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			segment, _, _ := strings.Cut(r.URL.Path[1:], "/")
			switch {
			case r.URL.RawQuery == "hang":
				<-r.Context().Done()
			case segment == "other":
				write(w, 200, gitHub("100", "90", "3600", "other")...)
			case time.Since(start2000) == 0:
				write(w, 200, gitHub("100", "0", "5", "core")...)
			default:
				write(w, 200, gitHub("100", "90", "3600", "core")...)
			}
		})
		c := s.over(&client.Transport{})
		get(t, c, "/core")
		get(t, c, "/other")
		time.Sleep(6 * time.Second)
		hang(t, c, "/core")
		var all sync.WaitGroup
		all.Go(func() {
			if get(t, c, "/core"); time.Since(start2000) != 7*time.Second {
				t.Errorf("sent after %v, want when the new route was answered", time.Since(start2000))
			}
		})
		time.Sleep(time.Second)
		get(t, c, "/new")
		all.Wait()
	})
}

// TestClosedLimitIsRemembered checks that a response which names another limit, as of a server that shows only the tightest one,
// neither opens a closed limit nor ends its trial: one request is sent, then two at a time, then three. A response that names the
// closed limit ends the trial.
func TestClosedLimitIsRemembered(t *testing.T) {
	for _, row := range []struct {
		further string // the resource of all responses but the first after Reset
		sent    []time.Duration
	}{{"day", []time.Duration{0, 1, 1, 2, 2, 2, 3}}, {"minute", []time.Duration{0, 1, 1, 2, 2, 2, 2}}} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			s := serve(func(w http.ResponseWriter, _ *http.Request) {
				id := n.Add(1)
				time.Sleep(time.Duration(max(4-id, 1)) * time.Millisecond) // the third response is received before the second
				switch {
				case id == 3:
					write(w, 200, gitHub("5", "0", "60", "minute")...)
				case id > 4:
					write(w, 200, gitHub("100", "90", "3600", row.further)...)
				default:
					write(w, 200, gitHub("100", "90", "3600", "day")...)
				}
			})
			c, all := s.over(&client.Transport{MaxWait: time.Hour}), sync.WaitGroup{}
			for _, calls := range []int{1, 2, 7} {
				for range calls {
					all.Go(func() { get(t, c, "/") })
				}
				all.Wait()
			}
			sent := s.requests(start2000)[3:]
			expect.AtLeast(t, sent[0], time.Minute, "%s: sent after", row.further)
			for i, at := range sent {
				expect.Equal(t, at-sent[0], row.sent[i]*time.Millisecond, "%s: request %d, sent after the first", row.further, i)
			}
		})
	}
}

// TestOneTrialAtATime checks that a late denial does not start a second trial while the request of the first is in flight.
func TestOneTrialAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case time.Since(start2000) > 0:
				time.Sleep(5 * time.Second)
				write(w, 200, gitHub("10", "9", "1", "")...)
			case r.URL.Path == "/late":
				time.Sleep(3 * time.Second)
				write(w, 429, gitHub("10", "0", "1", "")...)
			default:
				write(w, 200, gitHub("10", "0", "1", "")...)
			}
		})
		c, all := s.over(&client.Transport{}), sync.WaitGroup{}
		get(t, c, "/a")
		for _, path := range []string{"/late", "/a", "/a"} {
			all.Go(func() { get(t, c, path) })
			synctest.Wait()
		}
		all.Wait()
		expect.AtLeast(t, s.requests(start2000)[3], 6*time.Second, "sent after")
	})
}

// TestFirstComeFirstServed checks that calls, including denied ones, are sent in the order of their arrival.
func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			if len(order) == 0 && time.Since(start2000) < time.Second {
				write(w, 429, "Retry-After", "10")
				return
			}
			order = append(order, r.URL.RawQuery)
			write(w, 200, gitHub("60", "0", "1", "")...) // one each second
		})
		c := s.over(&client.Transport{})
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() { get(t, c, "/?"+strconv.Itoa(i)) })
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		expect.Elements(t, order, []string{"0", "1", "2", "3", "4"}, "order")
	})
}

// start2000 is the instant at which a synctest bubble begins.
var start2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// TestOneRequestGoesAhead checks that one request is sent while nothing is known about its key, and that the other requests of
// the key wait for its headers, not for its body.
func TestOneRequestGoesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			<-hold
			write(w, 200)
		})
		c := s.over(&client.Transport{})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { get(t, c, "/a") })
		}
		synctest.Wait()
		expect.Equal(t, len(s.requests(start2000)), 1, "requests sent before the first response")
		r, _ := http.NewRequest("GET", "http://other.example/a", nil)
		go c.Do(r)
		synctest.Wait()
		expect.Equal(t, len(s.requests(start2000)), 2, "requests (another key does not wait)")
		close(hold)
		synctest.Wait()
		expect.Equal(t, len(s.requests(start2000)), 21, "requests after the first response (it has named no limits)")
	})
}

// TestOneRequestOfARouteGoesAhead checks that if the server has limits, one request goes ahead to a route whose limits
// are unknown. If it has none, all requests are sent.
func TestOneRequestOfARouteGoesAhead(t *testing.T) {
	for _, limits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				if limits {
					write(w, 200, gitHub("100", "90", "60", r.URL.Path)...)
					return
				}
				write(w, 200)
			})
			c := s.over(&client.Transport{})
			get(t, c, "/a")
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() { get(t, c, "/b") })
			}
			synctest.Wait()
			expect.Equal(t, len(s.requests(start2000))-1, map[bool]int{false: 10, true: 1}[limits], "limits %v: requests at once", limits)
			all.Wait()
			expect.AtMost(t, time.Since(start2000), 3*time.Second, "time.Since(start2000)")
		})
	}
}

// TestOverdueRequestDelaysNoOther checks that requests without a response do not keep others waiting forever: neither
// the first request of a key, nor requests that may use up what remains.
func TestOverdueRequestDelaysNoOther(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "hang" {
					<-r.Context().Done()
				}
				write(w, 200, gitHub("100", "3", epoch(time.Now().Add(time.Hour)), "")...)
			})
			c := s.over(&client.Transport{NoPace: true})
			if known {
				get(t, c, "/")
			}
			for range 3 {
				hang(t, c, "/")
			}
			for range 6 {
				get(t, c, "/")
			}
			expect.Equal(t, time.Since(start2000), 10*time.Second, "known %v: six requests took behind three that hang", known)
		})
	}
}

// TestNothingIsSentWhileNothingRemains checks that no request is sent before the instant, that the first one is sent
// with a jitter of at most a tenth of the wait and 5s, and that it goes ahead of the others.
func TestNothingIsSentWhileNothingRemains(t *testing.T) {
	for _, wait := range []time.Duration{2 * time.Second, 20 * time.Second, 55 * time.Minute} {
		most := min(wait/10, 5*time.Second)
		var late []time.Duration
		for range 40 {
			synctest.Test(t, func(t *testing.T) {
				open := time.Now().Add(wait)
				s := serve(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Microsecond)
					left := "0"
					if !time.Now().Before(open) {
						left = "90"
					}
					write(w, 200, gitHub("100", left, epoch(open), "")...)
				})
				c := s.over(&client.Transport{MaxWait: time.Hour})
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() { get(t, c, "/") })
				}
				all.Wait()
				sent := s.requests(start2000)
				late = append(late, sent[1]-wait)
				if next := sent[1] + time.Microsecond; sent[2] != next || sent[19] != next {
					t.Errorf("sent at %v: want one ahead, and all others at its response", sent[1:])
				}
			})
		}
		slices.Sort(late)
		expect.True(t, late[0] >= 0 && late[len(late)-1] <= most+time.Second,
			"%v: sent from %v to %v after the instant, want 0 to %v", wait, late[0], late[len(late)-1], most)
		expect.True(t, late[len(late)-1]-late[0] >= most/4,
			"%v: sent from %v to %v after the instant, want some of %v jitter", wait, late[0], late[len(late)-1], most)
	}
}
