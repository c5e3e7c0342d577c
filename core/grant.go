package core

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// Grant gives a key n more requests under a rule of l now, on top of its limits, as when support adds to a customer's
// plan. A negative n takes requests away. In a fixed window, the requests last until the window ends; in a sliding
// window or log, for one period. Each grant ends by itself: a later one does not prolong it. A key keeps up to 60 grants of
// a limit apart; of more, two are merged so that the key never gets more. Grants that end together add up to at most
// 1,073,741,823 requests, added or taken away: Grant does not report what is beyond that. A grant raises the limit of a window
// or log, and does not lower what was used. A token bucket gets back at most what was used. Grant does not lift a ban and
// does not change limits of requests in flight. A grant does not change what a refund gives back, except that after requests
// were taken away from a token bucket, a refund of an older charge gives back only the part that cannot have drained.
//
// Pass the limits that apply to the key. If you pass none, Grant uses the limits that the rule's Override returns for
// the key, if any, or else the rule's own limits. For a key without an Override, a rule with a Tier needs limits, as in
// Take. Grant changes the store, not the fallback. Grant returns the same errors as Reset. After ErrUnavailable, nothing was
// granted, unless only the store's answer was lost: UsageOf tells. The error wraps ErrInvalid if n is 0 or a sliding log
// would have to hold more than 10,000 requests, its rate and grants together.
func (l *Limiter) Grant(ctx context.Context, rule, key string, n int, limits ...Limit) error {
	own, err := l.ofKey("grant", rule, key, limits)
	if err == nil && (n == 0 || n < -maxRate || n > maxRate) {
		err = within(fmt.Sprintf("grant of rule %q", own.rule.Name), invalid("requests must be between -%d and %d and not 0, got %d", maxRate, maxRate, n))
	}
	if err != nil {
		return prefix(err)
	}
	given := []Settlement{{Rule: own.rule.Name, Key: key, Limits: own.set.limits, Grant: n, set: own.set}}
	if _, err = l.store.settle(orBackground(ctx), given); err != nil {
		return prefix(unavailable(err))
	}
	l.grants.add(Granted{Rule: own.rule.Name, Key: key, Requests: n, At: time.Now()})
	return nil
}

// tooMuch returns an error that names the grants to sliding logs among settlements: one of them is more than the log can hold.
func tooMuch(settlements []Settlement) error {
	var errs []error
	for i := range settlements {
		s := &settlements[i]
		for _, l := range s.Limits {
			if l.Algorithm == SlidingLog && s.Grant != 0 {
				err := invalid("requests must be at most %d for %v, together with earlier grants, got %d", algorithm.MaxMembers-l.Rate, l, s.Grant)
				errs = append(errs, within(fmt.Sprintf("grant of rule %q", ruleName(s.Rule)), err))
			}
		}
	}
	return prefix(allOf(errs...))
}

// Grants returns the grants that l has made, for operators: package telemetry shows them.
func (l *Limiter) Grants() Grants {
	if _, err := l.current(); err != nil {
		return Grants{}
	}
	l.grants.mu.Lock()
	defer l.grants.mu.Unlock()
	return Grants{maps.Clone(l.grants.Made), slices.Clone(l.grants.Last)}
}

// A Granted is a grant that a limiter has made.
type Granted struct {
	Rule, Key string
	Requests  int       // the n of Limiter.Grant: added, or taken away if negative
	At        time.Time // by this process's clock
}

// Grants are the grants that a limiter has made since it was created. They do not include the grants of other processes.
type Grants struct {
	Made map[string]uint64 // how many, by rule
	Last []Granted         // at most 100, the newest first
}

type grants struct {
	mu sync.Mutex
	Grants
}

func (s *grants) add(g Granted) {
	const most = 100
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Made == nil {
		s.Made = make(map[string]uint64) // bounded by the names of rules
	}
	s.Made[g.Rule]++
	s.Last = append([]Granted{g}, s.Last[:min(len(s.Last), most-1)]...)
}
