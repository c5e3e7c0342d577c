package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

const maxBody = 64 << 10

// A state is the response to a look-up: the limits of a key.
type state struct {
	Rule   string       `json:"rule"`
	Key    string       `json:"key"` // as it was sent; "" if an ID was sent
	Limits []limitState `json:"limits"`
	Own    bool         `json:"own,omitempty"`    // they are limits from the rule's Override
	Tiered bool         `json:"tiered,omitempty"` // the rule has a Tier, so other limits may apply to the key
	Error  string       `json:"error,omitempty"`
}

// A limitState is the state of one limit of a key. Times are in milliseconds.
type limitState struct {
	Limit      string `json:"limit"`
	Remaining  int    `json:"remaining"`
	Capacity   int    `json:"capacity"`
	RetryAfter int64  `json:"retryAfter"` // 0 if a request would be allowed now; -1: never
	ResetAfter int64  `json:"resetAfter"`
}

// act looks a key up, after resetting or banning it if action says so. The form has a rule, a key or the ID of a row of
// the page, and the duration of a ban.
func (h *handler) act(w http.ResponseWriter, r *http.Request, action string) {
	if err := h.origin.Check(r); err != nil {
		http.Error(w, "cross-origin request", http.StatusForbidden)
		return
	}
	if action != "lookup" && !h.authorize(r) {
		http.Error(w, "not authorized", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "bad form", http.StatusBadRequest)
		return
	}
	s := state{Rule: r.PostForm.Get("rule"), Key: r.PostForm.Get("key")}
	if err := h.perform(r.Context(), action, r.PostForm, &s); err != nil {
		s.Error = err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(s)
}

var errForgotten = errors.New("this key is no longer among those that the page lists, or too long to look up")

// perform performs an action in each limiter that has the rule.
func (h *handler) perform(ctx context.Context, action string, form url.Values, s *state) error {
	key := s.Key
	if id := form.Get("id"); id != "" {
		var ok bool
		if key, ok = h.telemetry.FindKey(s.Rule, id); !ok {
			return errForgotten
		}
	}
	if key == "" {
		return errors.New("enter a key")
	}
	change, err := changeOf(action, form)
	if err != nil {
		return err
	}
	found := false
	for _, l := range h.telemetry.Limiters() {
		rules := l.Rules()
		i := slices.IndexFunc(rules, func(c core.Rule) bool { return c.Name == s.Rule })
		if i < 0 {
			continue
		}
		found = true
		if err := change(ctx, l, s.Rule, key); err != nil {
			return err
		}
		limits := rules[i].Limits
		if own := overrideOf(&rules[i], key); len(own) > 0 {
			limits, s.Own = own, true
		} else {
			s.Tiered = s.Tiered || rules[i].Tier != nil
		}
		if err := s.peek(ctx, l, key, limits); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("no attached limiter has a rule %q", s.Rule)
	}
	return nil
}

// overrideOf returns the limits of key alone, if rule has any.
func overrideOf(rule *core.Rule, key string) []core.Limit {
	if rule.Override == nil {
		return nil
	}
	return rule.Override(key)
}

// changeOf returns the func that applies an action to a key of a rule. For a look-up, the func does nothing.
func changeOf(action string, form url.Values) (change func(ctx context.Context, l *core.Limiter, rule, key string) error, err error) {
	switch action {
	case "reset":
		return func(ctx context.Context, l *core.Limiter, rule, key string) error { return l.Reset(ctx, rule, key) }, nil
	case "ban":
		d, err := time.ParseDuration(form.Get("duration"))
		if err != nil {
			return nil, errors.New("the duration of the ban must be a duration such as 1h")
		}
		return func(ctx context.Context, l *core.Limiter, rule, key string) error { return l.Ban(ctx, rule, key, d) }, nil
	}
	return func(context.Context, *core.Limiter, string, string) error { return nil }, nil
}

// peek adds the state of limits for a key. It charges nothing.
func (s *state) peek(ctx context.Context, l *core.Limiter, key string, limits []core.Limit) error {
	d, err := l.Take(ctx, core.Claim{Rule: s.Rule, Key: key, Limits: limits, Peek: true})
	if err != nil {
		return err
	}
	if len(d.Results) == 0 {
		return fmt.Errorf("the store does not answer: %w", d.Degraded)
	}
	for _, r := range d.Results {
		out := limitState{
			Limit: r.Limit.String(), Remaining: r.Remaining, Capacity: r.Quota(),
			RetryAfter: r.RetryAfter.Milliseconds(), ResetAfter: r.ResetAfter.Milliseconds(),
		}
		if r.RetryAfter == core.Never {
			out.RetryAfter = -1
		}
		s.Limits = append(s.Limits, out)
	}
	return nil
}
