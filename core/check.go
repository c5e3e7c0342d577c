package core

import (
	"net/http"
	"runtime/debug"
	"slices"
	"time"
)

// Check charges r for every rule that applies to it and says whether it is admitted. It writes no response.
//
// Each rule of l charges a request once. If the context of r carries decisions of l, their rules are not charged again, and Check
// returns these decisions, joined with its own about the rules that did not apply before and do now. So where a server routes a
// request again, which keeps its context, the rules of the new route are decided. A denied request stays denied, and is charged
// nothing more. To charge the parts of a batch for all rules, give them a context that does not extend the context of the batch.
//
// An error means that r must not be served: it wraps ErrNoKey if r has no key, ErrUnavailable if the store is down and a
// rule fails closed, ErrInvalid if a cost, a tier or a key is at fault, or it is what a callback of a rule came up with.
func (l *Limiter) Check(r *http.Request) (Decision, error) { return l.checkOrPeek(r, deciding) }

// Peek returns what Check would say of r, but charges nothing and calls no observer.
func (l *Limiter) Peek(r *http.Request) (Decision, error) { return l.checkOrPeek(r, peeking) }

// checkOrPeek decides about a request that no adapter passes on. Callbacks get a copy of it, in whose context RoutePattern leaves
// an error.
func (l *Limiter) checkOrPeek(r *http.Request, s stage) (Decision, error) {
	own := new(guarded)
	own.copyOf(r, r.Context(), l, nil)
	own.receipt.stage = s
	defer own.restore(r)
	if err := l.check(r, own); err != nil {
		return Decision{}, err
	}
	return own.ofLimiter(), nil
}

// check decides the rules that apply to a request, except those that l has decided for it before. Callbacks get the copy in own,
// observers get r.
func (l *Limiter) check(r *http.Request, own *guarded) error {
	rules, err := l.current()
	if err != nil {
		return prefix(err)
	}
	c := &own.receipt
	var earlier [2]*receipt
	before := own.before().receiptsOf(l, earlier[:0])
	if slices.ContainsFunc(before, (*receipt).denies) {
		return nil
	}
	var room [2]draft
	drafts, err := l.drafts(c, rules, &own.request, before, room[:0])
	if err == nil && len(drafts) == 1 && drafts[0].tier == nil {
		f, peek := &drafts[0], c.stage == peeking
		if l.takeOne(c, f.rule, f.key, f.cost, peek) != nil {
			if !peek {
				l.observeOne(r.Context(), r, c, f.key, f.cost)
			}
			return nil
		}
	}
	return l.checkAll(r, c, rules, drafts, err)
}

// checkAll decides what rules ask for on r, unless err says why it is not known.
func (l *Limiter) checkAll(r *http.Request, c *receipt, rules *ruleset, drafts []draft, err error) error {
	o := newObservation()
	for i := range drafts {
		o.Claims = drafts[i].appendTo(o.Claims, c.stage == peeking)
	}
	var took time.Duration
	if err == nil {
		if len(drafts) == 1 {
			c.expect(drafts[0].rule, o.Claims)
		}
		took, err = l.decide(r.Context(), rules, c, o.Claims)
	}
	err = prefix(err)
	l.observe(r.Context(), r, o, c, took, err)
	return err
}

// drafts appends to dst what every rule that applies to r asks for, except the rules that were decided before; a request to
// skip asks for nothing. If a callback fails, the last draft is that of its rule. A callback that panics is an error: it must
// neither admit the request nor take the server down.
func (l *Limiter) drafts(c *receipt, rules *ruleset, r *http.Request, before []*receipt, dst []draft) (drafts []draft, err error) {
	drafts = dst
	defer func() {
		if v := recover(); v != nil {
			err = &callbackPanic{v, debug.Stack()}
		}
		if err != nil {
			err = within(placeOf(drafts), err)
		}
	}()
	skipped, err := l.skip(c, r)
	if skipped || err != nil {
		return drafts, err
	}
	var room [8]int
	for _, i := range rules.routes.Match(r, room[:0]) {
		rule := &rules.rules[i]
		if slices.ContainsFunc(before, func(c *receipt) bool { return c.decides(rule.Name) }) {
			continue
		}
		var applies bool
		n := len(drafts)
		drafts = append(drafts, draft{rule: rule})
		if applies, err = drafts[n].ask(c, r); err != nil {
			break
		}
		if !applies {
			drafts = drafts[:n]
			continue
		}
		l.noteProxy(r, &drafts[n])
	}
	return drafts, err
}

// placeOf says which callback an error is about: one of the last rule or, if there is none, a skip.
func placeOf(drafts []draft) string {
	if len(drafts) == 0 {
		return "skip"
	}
	return drafts[len(drafts)-1].rule.place()
}

// skip reports whether r is a request to skip.
func (l *Limiter) skip(c *receipt, r *http.Request) (skipped bool, err error) {
	for i := 0; i < len(l.skips) && !skipped && err == nil; i++ {
		skipped = l.skips[i](r)
		err = c.routeError()
	}
	return skipped, err
}
