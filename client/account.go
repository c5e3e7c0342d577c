package client

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
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
	maxName     = 128  // bytes in the name of a host, a path segment, a resource or a policy
)

// An account has everything that is known about one Transport.Key.
type account struct {
	hold    budget // holds all requests of the key: at first until one has a response, later after a denial that names no limit
	budgets []*budget
	routes  map[routeKey]*route
	last    []*budget // the budgets of the last response that named any
	used    uint64    // when it was last used, on the clock of the Transport

	trying *call // the call in flight whose trying is set, or nil
	strict bool  // such a call was denied by the assumed budget, so further ones wait
}

type accountKey struct {
	scheme, host  string // or the text of Transport.Key as host
	authorization uint64
}

var seed = maphash.MakeSeed()

// keyOf returns the account key of r. It hashes the credential, so that the Transport does not keep it.
func (t *Transport) keyOf(r *http.Request) accountKey {
	if t.Key != nil {
		return accountKey{host: shortName(t.Key(r))}
	}
	key := accountKey{scheme: shortName(r.URL.Scheme), host: shortName(strings.ToLower(r.URL.Host))}
	if value := r.Header["Authorization"]; len(value) > 0 {
		key.authorization = maphash.String(seed, value[0])
	}
	return key
}

// shortName returns s or, if s is long, its hash: servers choose the names in their responses and, by redirects, hosts
// and paths.
func shortName(s string) string {
	if len(s) <= maxName {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// arrive sets the account, the route and the ticket of c.
func (t *Transport) arrive(c *call) {
	a := t.accounts[c.key]
	if a == nil {
		a = t.open(c.key)
	}
	a.used = t.clock
	c.account, c.route, c.ticket = a, a.routeOf(c.req, t.clock), t.clock
}

// open returns a new account. If there are too many, it forgets an old one.
func (t *Transport) open(key accountKey) *account {
	if t.accounts == nil {
		t.accounts = make(map[accountKey]*account)
	}
	if len(t.accounts) >= maxAccounts {
		delete(t.accounts, t.leastUsed())
	}
	a := &account{hold: budget{trial: trial{trying: true}}, routes: make(map[routeKey]*route)}
	key.scheme, key.host = strings.Clone(key.scheme), strings.Clone(key.host) // not the whole URL
	t.accounts[key] = a
	return a
}

// leastUsed returns the key of the least recently used account of a sample, if possible of an account without requests
// in flight.
func (t *Transport) leastUsed() (key accountKey) {
	var least *account
	sampled := 0
	for k, a := range t.accounts { // in random order
		if sampled++; sampled > 16 {
			break
		}
		if least == nil || a.idle() && !least.idle() || a.idle() == least.idle() && a.used < least.used {
			key, least = k, a
		}
	}
	return key
}

func (a *account) idle() bool { return a.hold.inFlight == 0 } // hold counts all requests

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

// mayTry reports whether a request of a route without a response may be sent although its assumed budgets are closed.
// Such requests are sent one at a time, until one of them is denied.
func (a *account) mayTry(now time.Time) bool {
	return !a.strict && a.trying == nil && slices.ContainsFunc(a.last, func(b *budget) bool { return now.Before(b.until) })
}
