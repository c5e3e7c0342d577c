package core

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// check decides about r. Callbacks get asked, which is r or a copy of it. Claims stay on the stack, as long as there are
// few.
func (l *Limiter) check(r, asked *http.Request, c *receipt) error {
	rules, err := l.current()
	if err != nil {
		return prefix(err)
	}
	var room [2]Claim
	claims, err := l.claims(c, rules, asked, room[:0])
	var took time.Duration
	if err == nil {
		took, err = l.decide(r.Context(), rules, c, claims)
	}
	err = prefix(err)
	l.observe(r.Context(), r, c, claims, took, err)
	return err
}

// claims appends a claim to dst for every rule that applies to r; a request to skip makes none. If a callback fails, the
// last claim is that of its rule. A callback that panics is an error: it must neither admit the request nor take the
// server down.
func (l *Limiter) claims(c *receipt, set *ruleset, r *http.Request, dst []Claim) (claims []Claim, err error) {
	var rule *Rule // nil: skip
	defer func() {
		if v := recover(); v != nil {
			claims, err = withClaimOf(rule, dst), &callbackPanic{v, debug.Stack()}
		}
		if err != nil {
			err = within(rule.place(), err)
		}
	}()
	for _, skip := range l.skips {
		skipped := skip(r)
		if err := c.routeError(); err != nil || skipped {
			return dst, err
		}
	}
	var last *Rule
	var room [8]int
	for _, i := range set.rulesOf(r, room[:0]) {
		rule = &set.rules[i]
		if rule.Match != nil {
			matches := rule.Match(r)
			if err := c.routeError(); err != nil {
				return withClaimOf(rule, dst), err
			}
			if !matches {
				continue
			}
		}
		n := len(dst)
		dst = append(dst, Claim{Rule: rule.Name, Peek: c.stage == peeking})
		err := rule.ask(&dst[n], r)
		if err := cmp.Or(c.routeError(), err); err != nil {
			return dst, err
		}
		if dst[n].Cost == 0 {
			dst = dst[:n]
			continue
		}
		last = rule
	}
	c.expect(last, dst)
	return dst, nil
}

// withClaimOf appends a claim of rule to claims, unless the last one is.
func withClaimOf(rule *Rule, claims []Claim) []Claim {
	if rule == nil || len(claims) > 0 && claims[len(claims)-1].Rule == rule.Name {
		return claims
	}
	return append(claims, Claim{Rule: rule.Name})
}

// ask sets c to the claim of rule on r, as its callbacks say. A claim that costs 0 is none.
func (rule *Rule) ask(c *Claim, r *http.Request) error {
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
