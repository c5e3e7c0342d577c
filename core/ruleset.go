package core

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/internal/memory"
	"github.com/spillgate/spillgate/internal/routes"
)

// A ruleset is a list of rules compiled by New or SetRules. It never changes.
type ruleset struct {
	rules   []activeRule
	byName  map[string]*activeRule
	routes  *routes.Index // finds the rules by their Routes
	mayWait bool          // a rule that is not a dry run has a MaxWait
}

// An activeRule is a Rule of a ruleset.
type activeRule struct {
	Rule
	claim Claim       // of a request, without a key and for a cost of 1
	hash  memory.Rule // of the Name
}

// newRuleset copies rules. Its errors are all mistakes in them.
func newRuleset(rules []Rule) (*ruleset, []error) {
	rules = cloneRules(rules)
	s := &ruleset{rules: make([]activeRule, len(rules)), byName: make(map[string]*activeRule, len(rules))}
	var errs []error
	if len(rules) == 0 {
		errs = append(errs, invalid("a limiter needs at least one rule, such as core.PerMinute(100).By(keyfunc.RemoteIP)"))
	}
	always := 0
	for i := range s.rules {
		if len(rules[i].Routes) == 0 && rules[i].Match == nil {
			always++
		}
		rules[i].Name = ruleName(rules[i].Name)
		r := &s.rules[i]
		r.Rule, r.hash = rules[i], memory.RuleOf(rules[i].Name)
		r.claim = Claim{
			Rule: r.Name, Limits: r.Limits, Cost: 1, DryRun: r.DryRun, Lease: r.Lease, MaxWait: r.MaxWait, rule: r, set: newLimitSet(r.Limits),
		}
		if s.byName[r.Name] != nil {
			errs = append(errs, within(r.place(), invalid("name is not unique; give each rule a Name of its own")))
		}
		errs = append(errs, within(r.place(), r.validate()))
		s.mayWait = s.mayWait || r.MaxWait > 0 && !r.DryRun
		s.byName[r.Name] = r
	}
	if always > maxClaims {
		errs = append(errs, invalid("%d rules have neither Routes nor Match and apply to every request, which can have at most %d claims", always, maxClaims))
	}
	patterns := make([][]string, len(rules))
	for i := range rules {
		patterns[i] = rules[i].Routes
	}
	index, mistakes := routes.New(patterns)
	for _, m := range mistakes {
		errs = append(errs, within(rules[m.Set].place(), invalid("%s", m.Text)))
	}
	s.routes = index
	return s, errs
}

// cloneRules copies rules and what they point to.
func cloneRules(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Limits = slices.Clone(rules[i].Limits)
		for j, l := range rules[i].Limits {
			rules[i].Limits[j] = l.normalized()
		}
		rules[i].Routes = slices.Clone(rules[i].Routes)
	}
	return rules
}

// fewRules is the largest number of rules for which named compares names one by one instead of hashing the name.
const fewRules = 4

// named returns the rule that has this name, or nil.
func (s *ruleset) named(name string) *activeRule {
	if len(s.rules) > fewRules {
		return s.byName[name]
	}
	for i := range s.rules {
		if s.rules[i].Name == name {
			return &s.rules[i]
		}
	}
	return nil
}

// noRule returns the error that s has no rule of this name.
func (s *ruleset) noRule(name string) error {
	return invalid("there is no rule %q%s", name, s.meant(name))
}

// meant suggests the rule that may be meant by a name that no rule has.
func (s *ruleset) meant(name string) string {
	const most = 8
	known := slices.Sorted(maps.Keys(s.byName))
	if hint := didYouMean("", name, known, ""); hint != "" || len(known) > most {
		return hint
	}
	return "; there is " + strings.Join(known, ", ")
}

// complete sets own, which has the same length as claims, to the claims with the missing fields filled in from their rules. It
// returns the first error. It still completes the other claims, because observers get all of them.
func (s *ruleset) complete(own, claims []Claim) (err error) {
	for i := range own {
		if mistake := s.completeOne(&own[i], &claims[i]); mistake != nil && err == nil {
			err = within(fmt.Sprintf("claim %d: rule %q", i+1, own[i].Rule), mistake)
		}
	}
	return err
}

// completeOne is complete for one claim. It validates the result. Like the claim of a request, own starts as a copy of the
// rule's claim.
func (s *ruleset) completeOne(own, claim *Claim) error {
	name := ruleName(claim.Rule)
	rule := s.named(name)
	if rule != nil {
		*own = rule.claim
	} else {
		*own = Claim{Rule: name}
	}
	own.Key, own.Cost, own.Peek, own.Hold = claim.Key, claim.Cost, claim.Peek, claim.Hold && !claim.Peek
	own.DryRun = own.DryRun || claim.DryRun
	if claim.Lease != 0 {
		own.Lease = claim.Lease
	}
	if claim.MaxWait != 0 {
		own.MaxWait = claim.MaxWait
	}
	if rule != nil && rule.Override != nil && len(claim.Limits) == 0 && own.Key != "" {
		if err := own.override(rule); err != nil {
			return err
		}
	}
	switch {
	case rule == nil && !printableASCII(name):
		return invalid("name must be printable ASCII")
	case len(claim.Limits) > 0:
		own.set = limitSetOf(claim.Limits)
		own.Limits = own.set.limits
	case own.Overridden:
	case rule == nil:
		return invalid("there is no rule of this name, and the claim has no limits%s", s.meant(name))
	case rule.Tier != nil:
		return invalid("the rule has a Tier, which needs a request; set Claim.Limits to the limits of this key's tier, or to the rule's Limits")
	}
	if rule == nil || own.Lease != rule.Lease || own.MaxWait != rule.MaxWait {
		own.rule = rule.of(own)
	}
	switch err := own.mistake(own.set); {
	case err != nil:
		return err
	case own.Key == "":
		return ErrNoKey
	case !own.Hold && !own.Peek && own.set.inFlight:
		return invalid("a claim with a limit of requests in flight needs Hold or Peek")
	}
	if own.Hold && rule != nil && rule.CostAfter != nil {
		own.Cost = clamp(max(own.Cost, 1), own.Limits)
	}
	return nil
}

// override sets the limits that the rule's Override returns for the key of c, if any.
func (c *Claim) override(rule *activeRule) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &callbackPanic{v, debug.Stack()}
		}
	}()
	if limits := rule.Override(c.Key); len(limits) > 0 {
		c.Overridden = true
		return c.use(limits, "override")
	}
	return nil
}

// of returns a rule for a claim that waits or leases otherwise than rule, or that no rule of a limiter made: rule is nil then.
func (rule *activeRule) of(c *Claim) *activeRule {
	own := new(activeRule)
	if rule != nil {
		*own = *rule
	}
	own.Name, own.Lease, own.MaxWait = c.Rule, c.Lease, c.MaxWait
	own.hash = memory.RuleOf(c.Rule)
	return own
}
