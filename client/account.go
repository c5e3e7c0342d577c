package client

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// These constants bound the memory of a Transport. If there is no more room, it forgets the least recently used budget,
// or the least recently used account or route of a sample.
const (
	maxAccounts = 1024 // of a Transport
	maxRoutes   = 512  // of an account
	maxBudgets  = 32   // of an account
)

type accountKey struct {
	scheme, host  string // or the text of Transport.Key as host
	authorization uint64
}

// An account has everything that is known about one Transport.Key.
type account struct {
	hold    budget // holds all requests of the key: at first until one has a response, later after a denial that names no limit
	budgets []*budget
	routes  map[routeKey]*route
	last    []*budget // the budgets of the route of the last response that named any
	used    uint64    // when a call last arrived, by Transport.arrivals
	clock   uint64    // counts arrivals, sendings and responses: it orders them

	trying *call // the call in flight whose trying is set, or nil
	strict bool  // such a call was denied by assumed budgets alone, so further ones wait
}

// A route stands for the requests that are likely to use the same budgets.
type route struct {
	seen    bool      // there was a response
	first   budget    // admits one request, and holds the others until there is a response
	budgets []*budget // the budgets of the last response that named any, then closed ones that it did not name; never changed in place
	used    uint64
}

type routeKey struct{ method, segment string }

func newAccount() *account {
	return &account{hold: budget{trial: trial{trying: true}}, routes: make(map[routeKey]*route)}
}

func (a *account) idle() bool { return a.hold.inFlight == 0 } // hold counts all requests

// admit counts c as sent and returns nil if all budgets that c needs admit it. Otherwise it returns the budget that c
// must wait for longest, and why.
func (a *account) admit(c *call, now time.Time) (longest *budget, why pause) {
	a.need(c, now)
	for _, b := range c.budgets {
		if p := b.checkInTurn(c, now); p.wait && (longest == nil || p.known.After(why.known)) {
			longest, why = b, p
		}
	}
	if longest != nil {
		return longest, why
	}
	a.clock++
	c.sent = a.clock
	for _, b := range c.budgets {
		b.enter(c, now)
	}
	if c.trying {
		a.trying = c
	}
	return nil, pause{}
}

// need sets the budgets that c needs: the budgets of its route or, if the route has had no response, the last budgets
// of its key. A call that is tried needs none of these.
func (a *account) need(c *call, now time.Time) {
	list := append(c.array[:0], &a.hold)
	if a.last != nil { // the server has limits: find out which ones this route has
		list = append(list, &c.route.first)
	}
	c.trying = false
	switch {
	case c.route.seen:
		list = append(list, c.route.budgets...)
	case a.mayTry(now):
		c.trying = true
	default:
		list = append(list, a.last...)
	}
	c.budgets = list
}

// mayTry reports whether a request of a route without a response may be sent although its assumed budgets are closed.
// Such requests are sent one at a time, until one of them is denied.
func (a *account) mayTry(now time.Time) bool {
	return !a.strict && a.trying == nil && slices.ContainsFunc(a.last, func(b *budget) bool { return now.Before(b.until) })
}

// dispatch admits the calls that wait for b, in order, until one has to wait longer.
func (a *account) dispatch(b *budget, now time.Time) {
	for c := b.head; c != nil; c = b.head {
		other, p := a.admit(c, now)
		switch other {
		case b:
			c.wakeAt(p.until)
			b.number(c, now)
			return
		case nil:
			b.remove(c)
			c.admitted = true
			c.wakeUp()
		default:
			b.remove(c)
			other.add(c)
			c.wakeAt(p.until)
		}
	}
}

// dispatchAll dispatches the calls that wait for any budget of a or of c. The first budget of c is the hold; the others
// may no longer belong to a.
func (a *account) dispatchAll(c *call, now time.Time) {
	for _, b := range c.budgets {
		a.dispatch(b, now)
	}
	a.dispatch(&c.route.first, now)
	for _, b := range a.budgets {
		a.dispatch(b, now)
	}
}

// settle ends the sending of c, learns from rep and dispatches the calls that wait. An empty rep stands for an error.
func (a *account) settle(c *call, rep *report, now time.Time) {
	a.clock++
	for _, b := range c.budgets {
		b.leave(c, now)
	}
	assumed := a.last
	named := a.match(c, rep)
	if rep.status != 0 {
		a.answer(c, rep, named, now)
	}
	if a.trying == c {
		a.trying = nil
		a.strict = rep.denied && !slices.ContainsFunc(named, func(b *budget) bool { return !slices.Contains(assumed, b) })
	}
	if rep.denied || rep.unavailable {
		a.denied(c, rep, named, now)
	}
	a.dispatchAll(c, now)
}

// match returns the budgets that rep names, one for each of its states, and records them for the route and for the key. The
// budgets of the route that are closed or on trial stay, after the named ones: a server that shows only its tightest limit
// may name another one in the meantime.
func (a *account) match(c *call, rep *report) []*budget {
	var array [maxStates]*budget
	named := array[:0]
	for _, s := range rep.states[:rep.n] {
		if b := a.find(s.name); b != nil {
			rep.states[len(named)] = s
			named = append(named, b)
		}
	}
	rep.n = len(named)
	if rep.n == 0 {
		return nil
	}
	list := named
	for _, b := range c.route.budgets {
		if b.trying && !slices.Contains(named, b) {
			list = append(list, b)
		}
	}
	if !slices.Equal(list, c.route.budgets) {
		c.route.budgets = slices.Clone(list)
	}
	a.last = c.route.budgets
	return a.last[:len(named)]
}

// answer learns from a response.
func (a *account) answer(c *call, rep *report, named []*budget, now time.Time) {
	if !rep.holdsKey() {
		a.hold.open(c)
	}
	c.route.first.open(c)
	failed := rep.status >= 500 || rep.denied
	if rep.cached {
		return
	}
	if named != nil || !failed {
		c.route.seen = true
	}
	for i, b := range named {
		b.observe(c, &rep.states[i], now, rep, a.clock)
	}
	if named != nil && !rep.denied {
		for _, b := range c.route.budgets[len(named):] { // each admitted c without saying what remains
			b.admitted(c)
		}
	}
	if named == nil && !failed {
		for _, b := range c.budgets[1:] { // the server no longer names limits
			b.counted = false
			b.open(c)
		}
	}
}

// denied closes the budgets that are used up or, if a denial names none, all of the key.
func (a *account) denied(c *call, rep *report, named []*budget, now time.Time) {
	longest := -1
	for i := range named {
		if s := &rep.states[i]; s.left == 0 && (longest < 0 || s.wait > rep.states[longest].wait) {
			longest = i
		}
	}
	if rep.holdsKey() {
		a.hold.denied(c, now, rep.retry, rep.status, a.clock)
		return
	}
	for i, b := range named {
		s := &rep.states[i]
		if s.left > 0 {
			continue
		}
		wait := s.wait
		if rep.hasRetry && (i == longest || wait <= 0 || wait > rep.retry) {
			wait = rep.retry // it takes precedence
		}
		b.denied(c, now, wait, rep.status, a.clock)
	}
}

// find returns the budget of a name. If there are too many, a new budget replaces the least recently used one; find
// returns nil if all are in use.
func (a *account) find(name budgetName) *budget {
	name.name = shortName(name.name)
	for _, b := range a.budgets {
		if b.name == name {
			return b
		}
	}
	name.name = strings.Clone(name.name) // not the whole field
	b := &budget{name: name}
	if len(a.budgets) < maxBudgets {
		a.budgets = append(a.budgets, b)
		return b
	}
	least := -1
	for i, old := range a.budgets {
		if old.idle() && (least < 0 || old.heard.Before(a.budgets[least].heard)) {
			least = i
		}
	}
	if least < 0 {
		return nil
	}
	a.budgets[least] = b
	return b
}

// routeOf returns the route of r: its method and first path segment.
func (a *account) routeOf(r *http.Request) *route {
	segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	key := routeKey{r.Method, shortName(segment)}
	rt := a.routes[key]
	if rt == nil {
		if len(a.routes) >= maxRoutes {
			least := leastOf(a.routes, func(a, b *route) bool { return a.used < b.used })
			delete(a.routes, least) // its calls continue
		}
		key.segment = strings.Clone(key.segment) // not the whole path
		rt = &route{first: budget{trial: trial{trying: true}}}
		a.routes[key] = rt
	}
	rt.used = a.clock
	return rt
}
