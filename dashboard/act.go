package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spillgate/spillgate/core"
)

const maxBody = 64 << 10

// A state is the answer to a look-up: the limits of a key.
type state struct {
	Rule   string       `json:"rule"`
	Key    string       `json:"key"` // as it was sent; "" if an ID was sent
	Limits []limitState `json:"limits"`
	Error  string       `json:"error,omitempty"`
}

// limitState is how much of a limit a key has left. Times are in milliseconds.
type limitState struct {
	Limit      string `json:"limit"`
	Remaining  int    `json:"remaining"`
	Capacity   int    `json:"capacity"`
	RetryAfter int64  `json:"retryAfter"` // 0 if a request would be allowed now; -1: never
	ResetAfter int64  `json:"resetAfter"`
}

// act looks a key up, or resets it first. The form names a rule, and a key or the ID of a row of the page.
func (h *handler) act(w http.ResponseWriter, r *http.Request, action string) {
	if err := h.origin.Check(r); err != nil {
		http.Error(w, "cross-origin request", http.StatusForbidden)
		return
	}
	if action == "reset" && !h.authorize(r) {
		http.Error(w, "not authorized", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "bad form", http.StatusBadRequest)
		return
	}
	s := state{Rule: r.PostForm.Get("rule"), Key: r.PostForm.Get("key")}
	if err := h.perform(r.Context(), action, r.PostForm.Get("id"), &s); err != nil {
		s.Error = err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(s)
}

var errForgotten = errors.New("this key is no longer among those that were denied most, or too long to look up")

// perform does an action in each limiter that has the rule.
func (h *handler) perform(ctx context.Context, action, id string, s *state) error {
	key := s.Key
	if id != "" {
		var ok bool
		if key, ok = h.telemetry.FindKey(s.Rule, id); !ok {
			return errForgotten
		}
	}
	if key == "" {
		return errors.New("enter a key")
	}
	found := false
	for _, l := range h.telemetry.Limiters() {
		if !slices.ContainsFunc(l.Rules(), func(c core.Rule) bool { return c.Name == s.Rule }) {
			continue
		}
		found = true
		if action == "reset" {
			if err := l.Reset(ctx, s.Rule, key); err != nil {
				return err
			}
		}
		if err := s.peek(ctx, l, key); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("no attached limiter has a rule %q", s.Rule)
	}
	return nil
}

// peek adds the limits of a key. It charges nothing.
func (s *state) peek(ctx context.Context, l *core.Limiter, key string) error {
	d, err := l.Take(ctx, core.Claim{Rule: s.Rule, Key: key, Peek: true})
	if err != nil {
		return err
	}
	if len(d.Results) == 0 {
		return fmt.Errorf("the store does not answer: %w", d.Degraded)
	}
	for _, r := range d.Results {
		out := limitState{
			Limit: r.Limit.String(), Remaining: r.Remaining, Capacity: r.Limit.Capacity(),
			RetryAfter: r.RetryAfter.Milliseconds(), ResetAfter: r.ResetAfter.Milliseconds(),
		}
		if r.RetryAfter == core.Never {
			out.RetryAfter = -1
		}
		s.Limits = append(s.Limits, out)
	}
	return nil
}
