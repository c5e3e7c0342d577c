package oracle_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
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

// subject returns an exact store that is changed by spoil.
func subject(spoil func(core.Store) core.Store) func() oracle.Subject {
	return func() oracle.Subject {
		e := &exact{now: time.UnixMicro(1 << 50)}
		return oracle.Subject{
			Store: spoil(e), Now: func() time.Time { return e.now }, Advance: func(d time.Duration) { e.now = e.now.Add(d) },
			Lend: func(c core.Claim, want int64) (int64, error) { return e.model.Ahead(e.now.UnixMicro(), c, want), nil },
		}
	}
}

func TestRandomTimelinesOfTheModelItself(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRandom(t, subject(func(s core.Store) core.Store { return s }), oracle.Options{Back: true, Lend: true}, testpass.Rounds(200))
	oracle.CompareRare(t, subject(func(s core.Store) core.Store { return s }))
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

// giveBack returns the settlement that gives back a claim with this result.
func giveBack(c core.Claim, r core.Result) []core.Settlement {
	return oracle.Settled([]core.Claim{c}, []core.Result{r})
}

// A gone is a request whose turn came at an instant.
type gone struct{ at, cost int64 }

// checkSpans checks that in any span no more than burst + rate × span went on.
func checkSpans(l core.Limit, all []gone) error {
	slices.SortStableFunc(all, func(a, b gone) int { return int(a.at - b.at) })
	for i := range all {
		sum := int64(0)
		for j := i; j < len(all); j++ {
			sum += all[j].cost
			most := big.NewRat(int64(l.Rate)*(all[j].at-all[i].at), l.Period.Microseconds())
			most.Add(most, big.NewRat(int64(l.Capacity()), 1))
			if big.NewRat(sum, 1).Cmp(most) > 0 {
				return fmt.Errorf("%d went on from %d to %d, want at most %v", sum, all[i].at, all[j].at, most.FloatString(6))
			}
		}
	}
	return nil
}

// TestBookingsKeepTheLimit makes, cancels and refunds waiting requests at random, with bans. It checks that no more
// requests go on than the limit allows, that they go on in order, and that the wait of each denial is long enough.
func TestBookingsKeepTheLimit(t *testing.T) {
	testpass.Thorough(t)
	rapid.Check(t, func(t *rapid.T) {
		var m oracle.Model
		l := limit(rapid.SampledFrom([]string{"10/s;burst=1", "10/s;burst=4", "7/s;burst=3", "100/m;burst=20", "3/1ms;burst=2", "90/h;burst=5"}).Draw(t, "limit"))
		each := l.Period.Microseconds() / int64(l.Rate)
		type request struct {
			claim  core.Claim
			result core.Result
		}
		var waiting, went []request
		all := []gone{}
		now, last := int64(start), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 2*each).Draw(t, "after")
			for len(waiting) > 0 && turnOf(waiting[0].result) <= now {
				went, waiting = append(went, waiting[0]), waiting[1:]
			}
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step == 0 && len(waiting) > 0:
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "canceled")
				_ = m.Settle(now, giveBack(waiting[i].claim, waiting[i].result))
				waiting = slices.Delete(waiting, i, i+1)
			case step == 1 && len(went) > 0:
				i := rapid.IntRange(max(0, len(went)-3), len(went)-1).Draw(t, "refunded")
				_ = m.Settle(now, giveBack(went[i].claim, went[i].result))
				went = slices.Delete(went, i, i+1)
			case step == 2:
				ban := time.Duration(rapid.Int64Range(1, 5*each).Draw(t, "ban")) * time.Microsecond
				_ = m.Settle(now, []core.Settlement{{Rule: "r", Key: "k", Ban: ban}})
			default:
				c := core.Claim{Rule: "r", Key: "k", Limits: []core.Limit{l}, Cost: rapid.IntRange(1, l.Capacity()).Draw(t, "cost")}
				c.MaxWait = time.Duration(rapid.Int64Range(1, 20*each).Draw(t, "most")) * time.Microsecond
				r := m.Take(now, []core.Claim{c})[0]
				if !r.Allowed {
					c.Peek = true
					again := m.Take(now+r.RetryAfter.Microseconds(), []core.Claim{c})[0]
					must.True(t, again.Allowed && again.Wait <= c.MaxWait, "%+v\nafter its wait %+v", r, again)
					break
				}
				if turnOf(r) < last && len(waiting) > 0 && turnOf(waiting[len(waiting)-1].result) > turnOf(r) {
					t.Fatalf("%+v goes before %+v", r, waiting[len(waiting)-1].result)
				}
				last = turnOf(r)
				waiting = append(waiting, request{c, r})
			}
		}
		for _, r := range append(went, waiting...) {
			all = append(all, gone{turnOf(r.result), int64(r.claim.Cost)})
		}
		must.Do(t, checkSpans(l, all))
	})
}

func turnOf(r core.Result) int64 { return r.At.Add(r.Wait).UnixMicro() }
