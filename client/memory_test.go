package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

// TestMemoryIsBounded checks that unused keys, routes and names are forgotten if there are too many.
func TestMemoryIsBounded(t *testing.T) {
	tr := &Transport{
		Base: answerWith(func(r *http.Request) *http.Response {
			h := http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {r.URL.RawQuery}}
			return &http.Response{StatusCode: 200, Header: h, Body: http.NoBody}
		}),
		Key: func(r *http.Request) string { return r.Host },
	}
	send := func(host, path, name string) {
		r, _ := http.NewRequest("GET", "http://"+host+path+"?"+name, nil)
		must.Get(tr.RoundTrip(r))(t)
	}
	send("one", "/always", "always")
	a := tr.accounts[accountKey{host: "one"}]
	always, named := a.routes[routeKey{"GET", "always"}], a.budgets[0]
	for n := range 5000 {
		send(fmt.Sprint("host", n), "/", "a")
		send("one", fmt.Sprint("/segment", n), fmt.Sprint("name", n))
		send("one", "/always", "always")
	}
	send("one", "/last", "name4999")
	expect.True(t, a == tr.accounts[accountKey{host: "one"}] && always == a.routes[routeKey{"GET", "always"}] && named == a.find(named.name),
		"a key, a route or a budget in use was forgotten")
	expect.True(t, len(tr.accounts) <= 1024 && len(a.routes) <= 512 && len(a.budgets) <= 32,
		"%d keys, %d routes, %d budgets", len(tr.accounts), len(a.routes), len(a.budgets))
	last := a.last[0]
	expect.True(t, last.name.name == "name4999" && a.find(last.name) == last, "the last budget, %v, was forgotten", last.name)
}

// TestLongNamesAreNotKept checks that a Transport keeps no long name, and no long text that contains a name. A server
// can choose such a name in a response or, by a redirect, in the URL of a request.
func TestLongNamesAreNotKept(t *testing.T) {
	testpass.Thorough(t)
	const size = 1 << 20
	long := func(s string) string { return s + strings.Repeat("\x01", size) }
	header := http.Header{}
	tr := &Transport{Base: answerWith(func(*http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: header, Body: http.NoBody}
	})}
	keyed := &Transport{Base: tr.Base, Key: func(r *http.Request) string { return long(r.URL.Host) }}
	before := heap()
	for i := range 3 {
		name := fmt.Sprint(i)
		for _, h := range []http.Header{
			{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {long(name)}},
			{"Ratelimit": {`"` + long(name) + `";r=5`}, "Ratelimit-Policy": {`"` + long(name) + `";q=9`}},
			{"Ratelimit": {`"` + name + `";r=5;x="` + long("") + `"`}},
			{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {name}, "X-Ratelimit-Reset": {"5"}, "Date": {"Sat, 01 Jan 2000 00:00:00." + strings.Repeat("0", size) + " GMT"}},
		} {
			header = h
			for _, url := range []url.URL{{Scheme: "http", Host: "a"}, {Scheme: "http", Host: "a", Path: "/" + long(name)}, {Scheme: "http", Host: long(name)}, {Scheme: long(name)}} {
				for _, tr := range []*Transport{tr, keyed} {
					must.Get(tr.RoundTrip(&http.Request{Method: "GET", URL: &url, Header: http.Header{}}))(t)
				}
			}
			u, err := url.Parse("http://b" + name + "/" + name + "/" + strings.Repeat("x", size)) // its host and its segment share one string
			must.Do(t, err)
			must.Get(tr.RoundTrip(&http.Request{Method: "GET", URL: u, Header: http.Header{}}))(t)
		}
	}
	header = nil
	kept := heap() - before
	expect.AtMost(t, kept, size/2, "%d KB are kept", kept>>10)
	runtime.KeepAlive(tr)
	runtime.KeepAlive(keyed)
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // the first may have begun before
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

type answerWith func(*http.Request) *http.Response

func (f answerWith) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestLongNamesStayApart checks that two long names mean two limits, and that the text of an error is short whatever the name.
func TestLongNamesStayApart(t *testing.T) {
	left, name := "0", ""
	tr := &Transport{MaxWait: -1, Base: answerWith(func(r *http.Request) *http.Response {
		h := http.Header{"X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {"3600"}, "X-Ratelimit-Resource": {name}}
		return &http.Response{StatusCode: 200, Header: h, Body: http.NoBody}
	})}
	send := func(path string) error {
		_, err := tr.RoundTrip(&http.Request{Method: "GET", URL: &url.URL{Host: "a", Path: path}, Header: http.Header{}})
		return err
	}
	for i, long := range []string{strings.Repeat("\xff", 128), strings.Repeat("\U0010ffff", 128/4), strings.Repeat("\xff", 129), strings.Repeat("\xff", 5<<20)} {
		path := fmt.Sprint("/", i)
		left, name = "5", "a"+long
		must.Do(t, send(path+"open"))
		left, name = "0", long
		must.Do(t, send(path))
		var limited *LimitedError
		must.True(t, errors.As(send(path), &limited) && limited.Status == 200 && (limited.Policy == long) == (len(long) <= 128),
			"%d: %+v, want an error that names the limit", i, limited)
		expect.AtMost(t, len(limited.Error()), 1024, "bytes of the error")
		left = "5"
		expect.Equal(t, send(path+"open"), nil, "%d: another long name is used up as well", i)
	}
}

// TestLeastRecentlyUsedAccountIsForgotten checks that the client forgets the least recently used account without requests in flight
// or, if all have some, the least recently used of all.
func TestLeastRecentlyUsedAccountIsForgotten(t *testing.T) {
	with := func(used uint64, inFlight int64) *account {
		return &account{used: used, hold: budget{inFlight: inFlight}}
	}
	for _, row := range []struct {
		want     string
		accounts map[string]*account
	}{
		{"old", map[string]*account{"busy": with(1, 1), "old": with(2, 0), "new": with(3, 0)}},
		{"old", map[string]*account{"old": with(1, 1), "new": with(2, 1), "newest": with(3, 2)}},
	} {
		for range 20 { // the order of a map is random
			tr := &Transport{accounts: make(map[accountKey]*account)}
			for name, a := range row.accounts {
				tr.accounts[accountKey{host: name}] = a
			}
			must.Equal(t, tr.leastUsed().host, row.want, "is forgotten")
		}
	}
}

// TestTurns checks that calls in a queue are numbered, and that calls whose turn in a paced window comes too late wake up.
func TestTurns(t *testing.T) {
	b := &budget{counted: true, limit: 100, window: window{kind: fixed, renewed: at(1100)}, heard: at(1000)}
	b.low.add(9, 0, 1)
	a := &account{clock: 9}
	rt := &route{seen: true, budgets: []*budget{b}}
	var calls []*call
	for i := range 4 {
		c := &call{route: rt, ticket: uint64(i + 1), limit: at(1025), place: place{wake: make(chan struct{}, 1)}}
		b.add(c)
		expect.Equal(t, c.turn, int64(i+1), "call %d has turn", i+1)
		calls = append(calls, c)
	}
	a.dispatch(b, at(1000)) // one of 9 in 100s: each 11s
	for i, c := range calls[1:] {
		expect.True(t, c.turn == int64(i+1) && (len(c.wake) > 0) == (i == 0 || b.pacedAt(c.turn, b.low.least()).After(at(1025))),
			"call %d of the queue has turn %d, woken %d times", i+1, c.turn, len(c.wake))
	}
	expect.True(t, len(calls[2].wake) == 0 && len(calls[3].wake) != 0,
		"want the first woken because its turn is known, and the third because its turn would be too late")
}

// TestBudgetWithAQueueIsNotForgotten checks that a budget for which calls wait is kept, although it is the least recently used.
func TestBudgetWithAQueueIsNotForgotten(t *testing.T) {
	a := &account{}
	for i := range maxBudgets {
		a.find(budgetName{line: int8(i)}).heard = at(i)
	}
	oldest, next := a.budgets[0], a.budgets[1]
	oldest.add(&call{})
	b := a.find(budgetName{name: "new"})
	expect.True(t, a.find(oldest.name) == oldest && b != nil && a.budgets[1] != next,
		"want the oldest kept, and the second oldest replaced")
}
