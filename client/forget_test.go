package client

import (
	"testing"
)

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
			if got := tr.leastUsed().host; got != row.want {
				t.Fatalf("%q is forgotten, want %q", got, row.want)
			}
		}
	}
}

// TestForgottenBudgetReleasesItsQueue checks that calls that wait for a forgotten budget are sent when its response
// arrives.
func TestForgottenBudgetReleasesItsQueue(t *testing.T) {
	b := &budget{counted: true, inFlight: 1}
	b.low.add(1, 0, 1)
	a := &account{clock: 3}
	sent := &call{route: &route{}, sent: 2, budgets: []*budget{&a.hold, b}}
	waiting := &call{route: &route{seen: true, budgets: []*budget{b}}, ticket: 3, place: place{wake: make(chan struct{}, 1)}}
	b.add(waiting)
	a.settle(sent, &report{}, at(0))
	if !waiting.admitted {
		t.Error("the call goes on waiting")
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
		if b.add(c); c.turn != int64(i+1) {
			t.Errorf("call %d has turn %d", i+1, c.turn)
		}
		calls = append(calls, c)
	}
	a.dispatch(b, at(1000)) // one of 9 in 100s: each 11s
	for i, c := range calls[1:] {
		if c.turn != int64(i+1) || (len(c.wake) > 0) != (i == 0 || b.pacedAt(c.turn, b.low.least()).After(at(1025))) {
			t.Errorf("call %d of the queue has turn %d, woken %d times", i+1, c.turn, len(c.wake))
		}
	}
	if len(calls[2].wake) > 0 || len(calls[3].wake) == 0 {
		t.Error("want the first woken because its turn is known, and the third because its turn would be too late")
	}
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
	if a.find(oldest.name) != oldest || b == nil || a.budgets[1] == next {
		t.Error("want the oldest kept, and the second oldest replaced")
	}
}
