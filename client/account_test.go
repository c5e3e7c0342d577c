package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
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
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := usedUp(20 * time.Second)
				c := s.over(&client.Transport{Key: row.key})
				for i, url := range []string{row.first, row.second} {
					r := request(t, url)
					for j := 0; j < len(row.fields[i]); j += 2 {
						r.Header.Set(row.fields[i][j], row.fields[i][j+1])
					}
					resp := must.Get(c.Do(r))(t)
					resp.Body.Close()
				}
				if waited := time.Since(start2000) > 0; waited != row.same {
					t.Errorf("the second waited: %v, want %v", waited, row.same)
				}
			})
		})
	}
}

// TestResources checks that each resource has its own budget, and that a request waits for the budget last seen for its method and
// first path segment.
func TestResources(t *testing.T) {
	limits := map[string]string{"GET repos": "core", "GET users": "core", "GET search": "search", "POST repos": "free", "GET meta": "free"}
	for _, row := range []struct {
		name  string
		first []string // requests that already have a response
		then  string
		waits bool
	}{
		{"the same", []string{"GET /repos/a"}, "GET /repos/b/c", true},
		{"another resource that was seen", []string{"GET /search/code", "GET /repos/a"}, "GET /search/issues", true},
		{"another method that was seen", []string{"POST /repos", "GET /repos/a"}, "POST /repos/x", false},
		{"another segment that was seen", []string{"GET /meta", "GET /repos/a"}, "GET /meta", false},
		{"an unseen segment is tried", []string{"GET /repos/a"}, "GET /search/code", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := byPath(limits).over(&client.Transport{})
				for _, line := range append(row.first, row.then) {
					start := time.Now()
					send(t, c, line)
					if waits := time.Since(start) > 0; line == row.then && waits != row.waits {
						t.Errorf("%s took %v", line, time.Since(start))
					}
				}
			})
		})
	}
}

// byPath is a server with a resource for each method and first segment. Each has one request in 20s, "free" has many.
func byPath(limits map[string]string) *server {
	return serve(func(w http.ResponseWriter, r *http.Request) {
		segment := strings.Split(r.URL.Path, "/")[1]
		resource, left := limits[r.Method+" "+segment], "0"
		if resource == "free" {
			left = "50"
		}
		write(w, 200, gitHub("60", left, "20", resource)...)
	})
}

// send sends a request given as "GET /path".
func send(t *testing.T, c *http.Client, line string) {
	t.Helper()
	var method, path string
	must.Get(fmt.Sscan(line, &method, &path))(t)
	r := must.Get(http.NewRequest(method, "http://api.example"+path, nil))(t)
	resp := must.Get(c.Do(r))(t)
	resp.Body.Close()
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
		if limited[true] > 1 || limited[false] != 50 {
			t.Errorf("%d denied, %d served, want 50 served and one denied, which reveals the limit", limited[true], limited[false])
		}
	})
}

// TestOneRouteIsTriedAtATime checks that the client tries only one of many unseen routes while another resource is used up.
func TestOneRouteIsTriedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			left := "0"
			if r.URL.Path != "/a" && time.Since(start2000) >= 30*time.Second {
				left = "90"
			}
			write(w, 200, gitHub("100", left, epoch(start2000.Add(30*time.Second)), "all")...)
		})
		c := s.over(&client.Transport{})
		get(t, c, "/a")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { get(t, c, fmt.Sprint("/new", i)) })
		}
		time.Sleep(500 * time.Millisecond)
		if n := len(s.requests(start2000)); n != 2 {
			t.Errorf("%d requests of new routes at once, want 1", n-1)
		}
		all.Wait()
	})
}

// TestOneRequestTriesEachHour checks that one request tries within an hour, whatever the response says.
func TestOneRequestTriesEachHour(t *testing.T) {
	for _, a := range announcements {
		t.Run(a.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				year := 365 * 24 * time.Hour
				s := serve(func(w http.ResponseWriter, r *http.Request) {
					now := time.Now()
					write(w, a.status, a.fields(now, now.Add(year))...)
				})
				c := s.over(&client.Transport{})
				for i := range 3 {
					resp, err := c.Get("http://api.example/")
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if late := time.Since(start2000.Add(time.Duration(i) * time.Hour)); late > 0 {
						t.Errorf("it tries %v after the hour", late)
					}
					_, err = c.Get("http://api.example/")
					if until := limitedBy(t, err).Until; time.Until(until) != time.Hour {
						t.Errorf("until %v, want in an hour", until)
					}
					time.Sleep(time.Hour)
				}
			})
		})
	}
}
