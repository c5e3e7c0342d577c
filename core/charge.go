package core

import (
	"sync/atomic"
	"time"
)

// A charge is what a limiter asked of a store for one request, and what it decided: a Decision is a view of it. It holds
// the first claim and result itself, so that a usual decision costs one allocation.
type charge struct {
	limiter  *Limiter
	made     bool // Guard is done with it
	allowed  bool
	peek     bool
	refunded atomic.Bool
	degraded error     // why the fallback decided; nil if the store did
	at       time.Time // when it decided
	claims   []Claim   // asked for and then, once decided, those that were charged
	results  []Result

	claim  [1]Claim
	result [1]Result
}

func (l *Limiter) newCharge() *charge { return new(charge).begin(l) }

// begin makes c, which is zero, a charge of l.
func (c *charge) begin(l *Limiter) *charge {
	c.limiter = l
	c.claims = c.claim[:0]
	return c
}

// room returns where the results of c go. The store may still write there after a deadline has passed.
func (c *charge) room() []Result {
	if n := countLimits(c.claims); n > len(c.result) {
		return make([]Result, 0, n)
	}
	return c.result[:0]
}

// settle notes what the store came to, and drops the claims that it did not charge.
func (c *charge) settle(at time.Time, results []Result) {
	c.at, c.results, c.allowed = at, results, true
	for i := range results {
		c.allowed = c.allowed && (results[i].Allowed || results[i].DryRun)
	}
	charged := 0
	for i := range c.claims {
		claim := &c.claims[i]
		fits := c.allowed && !claim.Peek
		for range claim.Limits {
			fits = fits && results[0].Allowed
			results = results[1:]
		}
		if !fits {
			continue
		}
		if charged != i {
			c.claims[charged] = *claim
		}
		charged++
	}
	c.claims = c.claims[:charged]
}

func (c *charge) decision() Decision {
	return Decision{Allowed: c.allowed, At: c.at, Results: c.results, Degraded: c.degraded, charge: c}
}

// outcome returns the decision or, if there is none, the error.
func (c *charge) outcome(err error) (Decision, error) {
	if err != nil {
		return Decision{}, err
	}
	return c.decision(), nil
}

// link returns how the store that decided is reached.
func (c *charge) link() *link {
	if c.degraded != nil {
		return c.limiter.fallback
	}
	return c.limiter.store
}
