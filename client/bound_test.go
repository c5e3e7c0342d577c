package client

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answer is a Base that answers with one limit of that name.
type answer func(*http.Request) (name string)

func (f answer) RoundTrip(r *http.Request) (*http.Response, error) {
	h := http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {f(r)}}
	return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// TestMemoryIsBounded checks that keys, routes and names are forgotten if there are too many, and that those in use stay.
func TestMemoryIsBounded(t *testing.T) {
	tr := &Transport{
		Base: answer(func(r *http.Request) string { return fmt.Sprint(r.URL.RawQuery) }),
		Key:  func(r *http.Request) string { return r.Host },
	}
	send := func(host, path, name string) {
		r, _ := http.NewRequest("GET", "http://"+host+path+"?"+name, nil)
		if _, err := tr.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
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
	if a != tr.accounts[accountKey{host: "one"}] || always != a.routes[routeKey{"GET", "always"}] || named != a.find(named.name) {
		t.Error("a key, a route or a budget in use was forgotten")
	}
	if len(tr.accounts) > maxAccounts || len(a.routes) > maxRoutes || len(a.budgets) > maxBudgets {
		t.Errorf("%d keys, %d routes, %d budgets", len(tr.accounts), len(a.routes), len(a.budgets))
	}
	if last := a.last[0]; last.name.name != "name4999" || a.find(last.name) != last {
		t.Errorf("the last budget, %v, was forgotten", last.name)
	}
}

// TestBudgetsInUseStay checks that names that come when all budgets have requests in flight are not kept.
func TestBudgetsInUseStay(t *testing.T) {
	a := &account{}
	for i := range maxBudgets {
		a.find(budgetName{name: fmt.Sprint(i)}).inFlight = 1
	}
	if a.find(budgetName{name: "new"}) != nil {
		t.Error("a budget in use was forgotten")
	}
	a.budgets[3].inFlight, a.budgets[4].inFlight = 0, 0
	a.budgets[3].heard = time.Unix(1, 0)
	if b := a.find(budgetName{name: "new"}); b == nil || a.budgets[4] != b {
		t.Error("the budget that was not heard of for longest was not replaced")
	}
}
