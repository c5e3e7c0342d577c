package core

import (
	"net/http"
	"runtime/debug"
	"time"
)

// check decides about r. Callbacks get asked, which is r or a copy of it.
func (l *Limiter) check(r, asked *http.Request, c *receipt) error {
	rules, err := l.current()
	if err != nil {
		return prefix(err)
	}
	var room [2]draft
	drafts, err := l.drafts(c, rules, asked, room[:0])
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

// drafts appends to dst what every rule that applies to r asks for; a request to skip asks for nothing. If a callback fails,
// the last draft is that of its rule. A callback that panics is an error: it must neither admit the request nor take the
// server down.
func (l *Limiter) drafts(c *receipt, rules *ruleset, r *http.Request, dst []draft) (drafts []draft, err error) {
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
	for _, i := range rules.rulesOf(r, room[:0]) {
		var applies bool
		n := len(drafts)
		drafts = append(drafts, draft{rule: &rules.rules[i]})
		if applies, err = drafts[n].ask(c, r); err != nil {
			break
		}
		if !applies {
			drafts = drafts[:n]
		}
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
