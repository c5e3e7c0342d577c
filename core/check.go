package core

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// check decides about r. Callbacks get asked, which is r or a copy of it. Claims stay on the stack, as long as there are
// few, or are made in the Observation.
func (l *Limiter) check(r, asked *http.Request, c *receipt) error {
	rules, err := l.current()
	if err != nil {
		return prefix(err)
	}
	var room [2]Claim
	o := l.observation()
	claims, err := l.claims(c, rules, asked, o.room(room[:0]))
	var took time.Duration
	if err == nil {
		took, err = l.decide(r.Context(), rules, c, claims)
	}
	err = prefix(err)
	l.observe(r.Context(), r, o, c, claims, took, err)
	return err
}

// claims appends a claim to dst for every rule that applies to r; a request to skip makes none. If a callback fails, the
// last claim is that of its rule. A callback that panics is an error: it must neither admit the request nor take the
// server down.
func (l *Limiter) claims(c *receipt, rules *ruleset, r *http.Request, dst []Claim) (claims []Claim, err error) {
	claims, returned := dst, false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				err = &callbackPanic{v, debug.Stack()}
			}
		}
		if err != nil {
			err = within(placeOf(claims), err)
		}
	}()
	skipped, err := l.skip(c, r)
	if skipped || err != nil {
		returned = true
		return claims, err
	}
	var last *activeRule
	var room [8]int
	for _, i := range rules.rulesOf(r, room[:0]) {
		var applies bool
		rule, n := &rules.rules[i], len(claims)
		claims = append(claims, Claim{Rule: rule.Name, Peek: c.stage == peeking})
		if applies, err = rule.ask(&claims[n], c, r); err != nil {
			break
		}
		if applies {
			last = rule
		} else {
			claims = claims[:n]
		}
	}
	c.expect(last, claims)
	returned = true
	return claims, err
}

// placeOf says which callback an error is about: one of the rule of the last claim or, if there is none, a skip.
func placeOf(claims []Claim) string {
	if len(claims) == 0 {
		return "skip"
	}
	return fmt.Sprintf("rule %q", claims[len(claims)-1].Rule)
}

// skip reports whether r is a request to skip.
func (l *Limiter) skip(c *receipt, r *http.Request) (skipped bool, err error) {
	for i := 0; i < len(l.skips) && !skipped && err == nil; i++ {
		skipped = l.skips[i](r)
		err = c.routeError()
	}
	return skipped, err
}

// ask sets what claim, that of rule on r, asks for. It reports false if rule makes none.
func (rule *activeRule) ask(claim *Claim, c *receipt, r *http.Request) (applies bool, err error) {
	if rule.Match != nil && !rule.Match(r) {
		return false, c.routeError()
	}
	err = rule.fill(claim, r)
	if unknown := c.routeError(); unknown != nil {
		err = unknown
	}
	return claim.Cost != 0, err
}

// fill sets what c asks for on r, as the callbacks of rule say. A claim that costs 0 is none.
func (rule *activeRule) fill(c *Claim, r *http.Request) error {
	c.Limits, c.Cost, c.DryRun, c.Lease = rule.Limits, 1, rule.DryRun, rule.Lease
	if rule.Cost != nil {
		if c.Cost = rule.Cost(r); c.Cost < 0 {
			return invalid("cost must not be negative, got %d", c.Cost)
		}
		if c.Cost == 0 {
			return nil
		}
	}
	if rule.Tier != nil {
		if limits := rule.Tier(r); len(limits) > 0 {
			if err := validateLimits(limits); err != nil {
				return within("tier", err)
			}
			c.Limits = limits
		}
	}
	key, err := rule.Key(r)
	if err != nil {
		return err
	}
	if key == "" {
		return fmt.Errorf("%w: the key func returned an empty one", ErrNoKey)
	}
	c.Key = key
	c.hold(rule)
	return nil
}
