package core

import (
	"fmt"
	"net/http"
)

func (l *Limiter) check(r *http.Request, c *charge) (Decision, error) {
	if err := l.claims(c, r); err != nil {
		return Decision{}, err
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
		claim, err := rule.claim(r)
		if err != nil {
			return err
		}
		if claim.Cost > 0 {
			claim.Peek = c.peek
			c.claims = append(c.claims, claim)
		}
	}
	return nil
}

// claim asks the callbacks of rule about r. A claim that costs 0 is none.
func (rule *Rule) claim(r *http.Request) (Claim, error) {
	c := Claim{Rule: rule.Name, Limits: rule.Limits, Cost: 1, DryRun: rule.DryRun}
	if rule.Cost != nil {
		if c.Cost = rule.Cost(r); c.Cost <= 0 {
			if c.Cost < 0 {
				return c, invalid("cost must not be negative, got %d", c.Cost)
			}
			return c, nil
		}
	}
	if rule.Tier != nil {
		if limits := rule.Tier(r); len(limits) > 0 {
			if err := validateLimits(limits); err != nil {
				return c, within("tier", err)
			}
			c.Limits = limits
		}
	}
	key, err := rule.Key(r)
	if err == nil && key == "" {
		err = fmt.Errorf("%w: the key func returned an empty one", ErrNoKey)
	}
	c.Key = key
	return c, err
}
