package core

import (
	"fmt"
	"net/http"
)

func (l *Limiter) check(r *http.Request, c *charge) error {
	if err := l.claims(c, r); err != nil {
		return err
	}
	return l.decide(r.Context(), c)
}

// claims turns every rule that applies to r into a claim of c; a request to skip makes none. A callback that panics is
// an error: it must neither admit the request nor take the server down.
func (l *Limiter) claims(c *charge, r *http.Request) (err error) {
	var rule *Rule // nil: skip
	defer func() {
		if v := recover(); v != nil {
			err = invalid("a callback panicked: %v", v)
		}
		if err != nil {
			err = within(rule.place(), err)
		}
	}()
	if l.skip != nil && l.skip(r) {
		return nil
	}
	for i := range l.rules {
		rule = &l.rules[i]
		if rule.Match != nil && !rule.Match(r) {
			continue
		}
		n := len(c.claims)
		c.claims = append(c.claims, Claim{Rule: rule.Name, Limits: rule.Limits, Cost: 1, Peek: c.peek, DryRun: rule.DryRun})
		claim := &c.claims[n]
		if err := rule.ask(claim, r); err != nil {
			return err
		}
		if claim.Cost == 0 {
			c.claims = c.claims[:n]
		}
	}
	return nil
}

// ask has the callbacks of rule say what c is to be for r. A claim that costs 0 is none.
func (rule *Rule) ask(c *Claim, r *http.Request) (err error) {
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
	c.Key, err = rule.Key(r)
	if err == nil && c.Key == "" {
		err = fmt.Errorf("%w: the key func returned an empty one", ErrNoKey)
	}
	return err
}
