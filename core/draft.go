package core

import (
	"fmt"
	"net/http"
)

// A draft is what a rule asks for on a request. A Claim is made of it where one is needed: nearly no decision in memory
// needs one.
type draft struct {
	rule *activeRule
	key  string
	cost int
	tier []Limit // instead of the limits of rule; nil for those
}

// ask sets what f asks for on r, as the callbacks of its rule say. It reports false if the rule does not apply.
func (f *draft) ask(c *receipt, r *http.Request) (applies bool, err error) {
	if f.rule.Match != nil && !f.rule.Match(r) {
		return false, c.routeError()
	}
	err = f.fill(r)
	if unknown := c.routeError(); unknown != nil {
		err = unknown
	}
	return f.cost != 0, err
}

// fill is ask for a rule that matches r. A cost of 0 makes no claim.
func (f *draft) fill(r *http.Request) (err error) {
	rule := f.rule
	f.cost = 1
	if rule.Cost != nil {
		if f.cost = rule.Cost(r); f.cost < 0 {
			return invalid("cost must not be negative, got %d", f.cost)
		}
		if f.cost == 0 {
			return nil
		}
	}
	if rule.Tier != nil {
		if limits := rule.Tier(r); len(limits) > 0 {
			if err := allOf(validateLimits(limits), undecided(limits)); err != nil {
				return within("tier", err)
			}
			f.tier = limits
		}
	}
	return f.identify(r)
}

// identify sets the key.
func (f *draft) identify(r *http.Request) error {
	if f.rule.Key == nil {
		return invalid("key func is missing, so only Limiter.Take can use the rule; set Key to one such as keyfunc.RemoteIP")
	}
	key, err := f.rule.Key(r)
	if err != nil {
		return err
	}
	if key == "" {
		return fmt.Errorf("the key func returned an empty key: %w", ErrNoKey)
	}
	f.key = key
	return nil
}

// appendTo appends f as a claim to claims. Without a key, it failed.
func (f *draft) appendTo(claims []Claim, peek bool) []Claim {
	claims = f.rule.appendClaim(claims, f.key, f.cost, peek)
	c := &claims[len(claims)-1]
	if f.tier != nil {
		c.Limits = f.tier
	}
	if f.key != "" {
		c.hold(f.rule)
	}
	return claims
}

// appendClaim appends a claim of rule, which holds nothing, to claims.
func (rule *activeRule) appendClaim(claims []Claim, key string, cost int, peek bool) []Claim {
	claims = append(claims, Claim{})
	c := &claims[len(claims)-1]
	c.Rule, c.Key, c.Limits, c.Cost, c.Peek = rule.Name, key, rule.Limits, cost, peek
	c.DryRun, c.Lease = rule.DryRun, rule.Lease
	return claims
}
