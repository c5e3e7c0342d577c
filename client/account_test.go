package client_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestKeys checks whose budget a request uses.
func TestKeys(t *testing.T) {
	header := func(name string) func(*http.Request) string {
		return func(r *http.Request) string { return r.Header.Get(name) }
	}
	for _, row := range []struct {
		name          string
		key           func(*http.Request) string
		first, second string // URLs
		fields        [2][]string
		same          bool
	}{
		{"the same", nil, "http://api.example/a", "http://api.example/a", [2][]string{}, true},
		{"the case of a host does not matter", nil, "http://api.example/a", "http://API.example/a", [2][]string{}, true},
		{"scheme", nil, "http://api.example/a", "https://api.example/a", [2][]string{}, false},
		{"host", nil, "http://api.example/a", "http://api2.example/a", [2][]string{}, false},
		{"port", nil, "http://api.example/a", "http://api.example:81/a", [2][]string{}, false},
		{"credential", nil, "http://api.example/a", "http://api.example/a", [2][]string{{"Authorization", "Bearer a"}, {"Authorization", "Bearer b"}}, false},
		{"with and without a credential", nil, "http://api.example/a", "http://api.example/a", [2][]string{{}, {"Authorization", "Bearer b"}}, false},
		{"same credential", nil, "http://api.example/a", "http://api.example/a", [2][]string{{"Authorization", "Bearer a"}, {"Authorization", "Bearer a"}}, true},
		{"other fields do not matter", nil, "http://api.example/a", "http://api.example/a", [2][]string{{"X-Api-Key", "a"}, {"X-Api-Key", "b"}}, true},
		{"Key", header("X-Api-Key"), "http://api.example/a", "http://api.example/a", [2][]string{{"X-Api-Key", "a"}, {"X-Api-Key", "b"}}, false},
		{"Key instead of the host", header("X-Api-Key"), "http://api.example/a", "https://other.example/a", [2][]string{{"X-Api-Key", "a"}, {"X-Api-Key", "a"}}, true},
	} {
		t.Run(row.name, inBubble(func(t *testing.T) {
			c := usedUp(20 * time.Second).over(&client.Transport{Key: row.key})
			for i, url := range []string{row.first, row.second} {
				r := request(t, url)
				for j := 0; j < len(row.fields[i]); j += 2 {
					r.Header.Set(row.fields[i][j], row.fields[i][j+1])
				}
				must.Get(c.Do(r))(t).Body.Close()
			}
			expect.Equal(t, time.Since(start2000) > 0, row.same, "the second waited")
		}))
	}
}

// TestOneLimitForManyPaths checks that the client learns a limit that all paths share from one denial: requests with new
// first segments are denied once in total, not once each.
func TestOneLimitForManyPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := map[bool]int{}
		open := time.Now()
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			denied := time.Now().Before(open)
			if !denied {
				open = time.Now().Add(5 * time.Second)
			}
			limited[denied]++
			status := map[bool]int{true: 429, false: 200}[denied]
			write(w, status, gitHub("60", "0", epoch(open.Add(time.Second-1)), "all")...)
		})
		c := s.over(&client.Transport{MaxWait: time.Hour})
		for i := range 50 {
			get(t, c, fmt.Sprintf("/owner%d/repo", i))
		}
		expect.True(t, limited[true] <= 1 && limited[false] == 50,
			"%d denied, %d served, want 50 served and one denied, which reveals the limit", limited[true], limited[false])
	})
}

// TestOneRequestTriesEachHour checks that one request tries within an hour, whatever the response says.
func TestOneRequestTriesEachHour(t *testing.T) {
	for _, a := range announcements {
		t.Run(a.name, inBubble(func(t *testing.T) {
			year := 365 * 24 * time.Hour
			s := serve(func(w http.ResponseWriter, r *http.Request) {
				now := time.Now()
				write(w, a.status, a.fields(now, now.Add(year))...)
			})
			c := s.over(&client.Transport{})
			for i := range 3 {
				resp, err := c.Get("http://api.example/")
				must.Do(t, err)
				resp.Body.Close()
				expect.AtMost(t, time.Since(start2000.Add(time.Duration(i)*time.Hour)), 0, "it tries after the hour")
				_, err = c.Get("http://api.example/")
				until := limitedBy(t, err).Until
				expect.Equal(t, time.Until(until), time.Hour, "until %v (in an hour)", until)
				time.Sleep(time.Hour)
			}
		}))
	}
}

// TestManyPaths drives 200 goroutines, each with a path of its own, against a limit that all paths share: the client
// learns this from one denial at most.
func TestManyPaths(t *testing.T) {
	for _, w := range writers {
		t.Run(w.name, inBubble(func(t *testing.T) {
			s := limited(core.PerMinute(100), w.write)
			s.latency = func() time.Duration { return rand.N(50 * time.Millisecond) }
			drive(t, s, 200, 3*time.Minute, func(g, i int) string { return fmt.Sprintf("/%d.%d", g, i) })
			count := s.count()
			expect.True(t, count[200] >= 380 && count[429] <= 1, "%v, want 95%% of 400 and one denial", count)
		}))
	}
}

// TestSpillgateServers drives 50 goroutines for two minutes against a server with each header writer. If the writer reports what
// remains, no request is denied. If it writes only Retry-After, or nothing, there are few denials, and no caller sees one. Package
// clients in e2e runs a Transport against each adapter.
func TestSpillgateServers(t *testing.T) {
	for _, w := range []struct {
		name         string
		write        headers.Writer
		hasRemaining bool
	}{
		{"GitHub", headers.GitHub, true},
		{"IETF", headers.IETF, true},
		{"both", headers.Join(headers.GitHub, headers.IETF), true},
		{"Custom, seconds", headers.Custom{Reset: headers.DeltaSeconds}.Write, true},
		{"Custom, RFC 3339", headers.Custom{Reset: headers.RFC3339}.Write, true},
		{"Custom, other names", headers.Custom{Prefix: "X-App"}.Write, false},
		{"None", headers.None, false},
	} {
		for _, l := range []core.Limit{core.PerMinute(60), core.Every(20, 10*time.Second).Using(core.FixedWindow), core.PerMinute(40).Using(core.SlidingLog)} {
			t.Run(fmt.Sprint(w.name, ", ", l), inBubble(func(t *testing.T) {
				s := limited(l, w.write)
				s.latency = func() time.Duration { return rand.N(50 * time.Millisecond) }
				drive(t, s, 50, 2*time.Minute, oneUser)
				count := s.count()
				if admits := l.Rate * int(2*time.Minute/l.Period); 100*count[200] < 95*admits || w.hasRemaining && count[429] > 0 || count[429] > 3*admits {
					t.Errorf("%v, want %d admitted", count, admits)
				}
			}))
		}
	}
}

// TestTrialAfterADenialGrows checks that after a denial one request is sent, then two at a time, and so on, if the responses of
// admitted requests do not say how many remain, although the denial does.
func TestTrialAfterADenialGrows(t *testing.T) {
	for _, row := range []struct {
		name             string
		denial, response []string
	}{
		{"fields in denials only", gitHub("3", "0", "1", ""), nil},
		{"a limit of requests in flight", []string{"RateLimit", `"a";r=0`}, []string{"RateLimit", `"a";r=2`}},
	} {
		t.Run(row.name, inBubble(func(t *testing.T) {
			var n atomic.Int64
			s := serve(func(w http.ResponseWriter, _ *http.Request) {
				defer n.Add(-1)
				w.Header().Set("RateLimit-Policy", `"a";q=3;qu="concurrent-requests"`)
				if n.Add(1) > 3 {
					write(w, 429, append(row.denial, "Retry-After", "1")...)
					return
				}
				time.Sleep(100 * time.Millisecond)
				write(w, 200, row.response...)
			})
			drive(t, s, 8, time.Minute, oneUser)
			count := s.count()
			expect.True(t, count[429] < 100 && count[200] > 300, "%v, want few denials", count)
		}))
	}
}
