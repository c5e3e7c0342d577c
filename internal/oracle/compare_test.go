package oracle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

// An exact store is the model on a clock of its own.
type exact struct {
	model oracle.Model
	now   time.Time
}

func (e *exact) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	return append(dst, e.model.Take(e.now.UnixMicro(), claims)...), nil
}

func (e *exact) Settle(_ context.Context, some []core.Settlement) error {
	return e.model.Settle(e.now.UnixMicro(), some)
}

func (e *exact) Reset(_ context.Context, pairs []core.Pair) error {
	e.model.Reset(e.now.UnixMicro(), pairs)
	return nil
}

func subject(spoil func(core.Store) core.Store) func() oracle.Subject {
	return func() oracle.Subject {
		e := &exact{now: time.UnixMicro(1 << 50)}
		return oracle.Subject{
			Store: spoil(e), Now: func() time.Time { return e.now }, Advance: func(d time.Duration) { e.now = e.now.Add(d) },
		}
	}
}

// spoiled changes what a store is asked, or what it answers.
type spoiled struct {
	core.Store
	take   func([]core.Claim)
	result func(*core.Result)
	settle func(*core.Settlement)
	reset  bool
}

func (s spoiled) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if s.take != nil {
		claims = append([]core.Claim(nil), claims...)
		s.take(claims)
	}
	results, err := s.Store.Take(ctx, claims, dst)
	for i := range results {
		if s.result != nil {
			s.result(&results[i])
		}
	}
	return results, err
}

func (s spoiled) Settle(ctx context.Context, some []core.Settlement) error {
	for i := range some {
		if s.settle != nil {
			s.settle(&some[i])
		}
	}
	return s.Store.Settle(ctx, some)
}

func (s spoiled) Reset(ctx context.Context, pairs []core.Pair) error {
	if s.reset {
		return nil
	}
	return s.Store.Reset(ctx, pairs)
}

// A recorder is a T that records how a comparison fails.
type recorder struct{ text string }

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.text = fmt.Sprintf(format, args...)
	panic(r)
}

// failure returns how a comparison fails, or "".
func failure(compare func(oracle.T)) (text string) {
	r := new(recorder)
	defer func() {
		if v := recover(); v != nil && v != any(r) {
			panic(v)
		}
		text = r.text
	}()
	compare(r)
	return ""
}

// TestRandomTimelinesFindMistakes checks that each mistake of a store is found, in a short timeline.
func TestRandomTimelinesFindMistakes(t *testing.T) {
	testpass.Thorough(t)
	for name, s := range map[string]spoiled{
		"no holds":         {take: func(all []core.Claim) { all[0].Hold = false }},
		"no dry runs":      {take: func(all []core.Claim) { all[0].DryRun = false }},
		"peeks charge":     {take: func(all []core.Claim) { all[0].Peek = false }},
		"no waits":         {take: func(all []core.Claim) { all[0].MaxWait = 0 }},
		"a wait too short": {result: func(r *core.Result) { r.RetryAfter -= time.Microsecond }},
		"no grants":        {settle: func(s *core.Settlement) { s.Grant = 0 }},
		"no bans":          {settle: func(s *core.Settlement) { s.Ban = min(s.Ban, 1) }},
		"no renewals":      {settle: func(s *core.Settlement) { s.Renew = false }},
		"no refunds":       {settle: func(s *core.Settlement) { s.Final = max(s.Final, 1) }},
		"no resets":        {reset: true},
		"settled one too early": {settle: func(s *core.Settlement) {
			if !s.At.IsZero() {
				s.At = s.At.Add(-time.Hour)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spoil := func(store core.Store) core.Store {
				s.Store = store
				return s
			}
			text := failure(func(t oracle.T) { oracle.CompareRandom(t, subject(spoil), oracle.Options{}, 300) })
			must.True(t, text != "", "no timeline has found it")
			expect.AtMost(t, strings.Count(text, "\n"), 12, "the timeline is long:\n%s", text)
			t.Log(text)
		})
	}
}
