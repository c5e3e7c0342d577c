package oracle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A Subject is a store that is compared with the model. No key of it has been seen.
type Subject struct {
	core.Store
	Now     func() time.Time    // the store's clock, which stands still but for Advance
	Advance func(time.Duration) // moves the clock: back, if the duration is negative
	// Lend charges a claim ahead like Model.Ahead. It is nil if the store lends nothing.
	Lend func(c core.Claim, want int64) (granted int64, err error)
}

// A T is a *testing.T or a *rapid.T.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Compare plays a timeline on a store and on a model. If they differ, it fails t with the shortest timeline that it finds in which they
// differ. Compare calls open once for each time it plays a timeline.
func Compare(t T, open func() Subject, steps []Step) {
	t.Helper()
	steps = numbered(steps)
	if _, failed := play(open(), steps); failed {
		t.Fatalf("%s", shrink(open, steps))
	}
}

// CompareRandom compares a store with the model on random timelines: those of n seeds.
func CompareRandom(t T, open func() Subject, o Options, n int) {
	t.Helper()
	for seed := range uint64(n) {
		steps := numbered(Random(seed, o))
		if _, failed := play(open(), steps); failed {
			t.Fatalf("seed %d of %+v: %s", seed, o, shrink(open, steps))
		}
	}
}

func numbered(steps []Step) []Step {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].id = i
	}
	return steps
}

// A comparison is a store and the model side by side.
type comparison struct {
	Subject
	model Model
	begun time.Time
	took  map[int][]core.Settlement // by step: what gives back what it charged or held
	last  []core.Result
	log   strings.Builder
}

// The longest time that a timeline takes. The clock of a synctest bubble cannot show more.
const longest = 200 * 365 * 24 * time.Hour

// play plays steps until store and model differ. It returns the number of steps that it played.
func play(s Subject, steps []Step) (n int, failed bool) {
	n, text := playAll(s, steps)
	return n, text != ""
}

// playAll also returns a text that says what happened, if store and model differ.
func playAll(s Subject, steps []Step) (n int, text string) {
	c := comparison{Subject: s, begun: s.Now(), took: make(map[int][]core.Settlement)}
	for i, step := range steps {
		if d := step.Wait(c.last); c.Now().Sub(c.begun)+d < longest {
			c.Advance(d)
		}
		fmt.Fprintf(&c.log, "%4d: at %-12v %v", step.id, c.Now().Sub(c.begun), step)
		if err := c.play(step); err != nil {
			return i + 1, c.log.String() + "\n" + err.Error()
		}
		c.log.WriteByte('\n')
	}
	return len(steps), ""
}

// play makes the call of a step and returns how store and model differ, or nil.
func (c *comparison) play(s Step) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	ctx, now := context.Background(), c.Now().UnixMicro()
	switch s.Verb {
	case "take":
		got, err := c.Take(ctx, s.Claims, nil)
		want := c.model.Take(now, s.Claims)
		c.last, c.took[s.id] = want, Charged(s.Claims, want)
		for _, r := range want {
			fmt.Fprintf(&c.log, " -> %s", short(r))
		}
		if err != nil {
			return fmt.Errorf("the store fails: %w", err)
		}
		return differ(got, want)
	case "lend":
		claim := s.Claims[0]
		got, err := c.Lend(claim, s.Want)
		claim.Cost = int(c.model.Ahead(now, claim, s.Want))
		fmt.Fprintf(&c.log, " -> %d", claim.Cost)
		if err != nil {
			return fmt.Errorf("the store charges nothing ahead: %w", err)
		}
		if got != int64(claim.Cost) {
			return fmt.Errorf("the store charges %d ahead, want %d", got, claim.Cost)
		}
		if got > 0 {
			c.took[s.id] = []core.Settlement{Settlement(claim, time.UnixMicro(now))}
		}
		return nil
	case "reset":
		defer c.Advance(time.Microsecond) // a store may know a charge of the same instant from one before the reset, or not
		c.model.Reset(now, []core.Pair{s.Pair})
		return c.Reset(ctx, []core.Pair{s.Pair})
	case "ban":
		return c.settle(now, []core.Settlement{{Rule: s.Pair.Rule, Key: s.Pair.Key, Ban: s.Ban}})
	case "grant":
		claim := s.Claims[0]
		return c.settle(now, []core.Settlement{{Rule: claim.Rule, Key: claim.Key, Limits: claim.Limits, Grant: s.Grant}})
	case "renew":
		return c.renew(now, c.took[s.Of])
	}
	some := c.took[s.Of]
	delete(c.took, s.Of)
	for i := range some {
		some[i].Final = 0
		if len(s.Finals) > 0 {
			some[i].Final = s.Finals[min(i, len(s.Finals)-1)]
		}
	}
	return c.settle(now, some)
}

// settle settles the same in store and model, and compares the instants of renewals.
func (c *comparison) settle(now int64, some []core.Settlement) error {
	if len(some) == 0 {
		return nil
	}
	want := slices.Clone(some)
	got, failed := c.Settle(context.Background(), some), c.model.Settle(now, want)
	if got != nil && !errors.Is(got, core.ErrInvalid) || (got == nil) != (failed == nil) {
		return fmt.Errorf("the store returns another error than the model: %w", errors.Join(got, failed))
	}
	for i := range some {
		if some[i].At.UnixMicro() != want[i].At.UnixMicro() {
			return fmt.Errorf("settlement %d is held since %v, want %v", i, some[i].At, want[i].At)
		}
		some[i].At = want[i].At
	}
	return nil
}

func (c *comparison) renew(now int64, some []core.Settlement) error {
	var renewed []core.Settlement
	for _, s := range some {
		if s.Renew = true; s.Held {
			renewed = append(renewed, s)
		}
	}
	err := c.settle(now, renewed)
	for i := range some {
		if some[i].Held {
			some[i].At, renewed = renewed[0].At, renewed[1:]
		}
	}
	return err
}

func short(r core.Result) string {
	text := fmt.Sprintf("no %d", r.Remaining)
	if r.Allowed {
		text = fmt.Sprintf("yes %d", r.Remaining)
	}
	for _, wait := range []struct {
		name string
		d    time.Duration
	}{{"retry", r.RetryAfter}, {"wait", r.Wait}, {"refill", r.RefillAfter}, {"reset", r.ResetAfter}} {
		switch wait.d {
		case 0:
		case core.Never:
			text += " " + wait.name + " never"
		default:
			text += fmt.Sprintf(" %s %v", wait.name, wait.d)
		}
	}
	if r.Granted != 0 {
		text += fmt.Sprintf(" granted %d", r.Granted)
	}
	return text
}

// differ returns an error that says how results differ, or nil.
func differ(got, want []core.Result) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d results, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.At.UnixMicro() == w.At.UnixMicro() {
			g.At = w.At
		}
		if g == w {
			continue
		}
		text := fmt.Sprintf("result %d, %v:\n got %s\nwant %s", i, w.Limit, short(g), short(w))
		if short(g) == short(w) {
			text = fmt.Sprintf("result %d:\n got %+v\nwant %+v", i, g, w)
		}
		return errors.New(text)
	}
	return nil
}

// shrink returns the text of a short timeline in which store and model differ, which they do in steps. It leaves out and simplifies steps
// as long as they still differ, for a minute at most.
func shrink(open func() Subject, steps []Step) string {
	all, begun := len(steps), time.Now()
	try := func(next []Step) bool {
		if time.Since(begun) > time.Minute {
			return false
		}
		n, failed := play(open(), next)
		if failed {
			steps = next[:n]
		}
		return failed
	}
	try(steps)
	for before := -1; before != weight(steps); {
		before = weight(steps)
		for i := len(steps) - 1; i >= 0; i-- {
			if i >= len(steps) {
				continue
			}
			without := slices.Delete(slices.Clone(steps), i, i+1)
			if later := slices.Clone(without); i < len(later) { // so that the others stay at their instants
				later[i].After += steps[i].After
				if try(later) {
					continue
				}
			}
			try(without)
		}
		for i := range steps {
			for _, simpler := range simplified(steps[min(i, len(steps)-1)]) {
				if i < len(steps) {
					next := slices.Clone(steps)
					next[i] = simpler
					try(next)
				}
			}
		}
	}
	_, text := playAll(open(), steps)
	return fmt.Sprintf("store and model differ, in %d of %d steps:\n%s", len(steps), all, text)
}

// weight returns a number that becomes smaller if a timeline becomes simpler.
func weight(steps []Step) (n int) {
	for _, s := range steps {
		n += 1 + len(s.String())
	}
	return n
}

// simplified returns steps that are simpler than s, each in one respect.
func simplified(s Step) (all []Step) {
	add := func(change func(*Step)) {
		next := s
		next.Claims = slices.Clone(s.Claims)
		if change(&next); next.String() != s.String() {
			all = append(all, next)
		}
	}
	add(func(n *Step) { n.Until, n.After = "", 0 })
	for i := range s.Claims {
		if len(s.Claims) > 1 {
			add(func(n *Step) { n.Claims = slices.Delete(n.Claims, i, i+1) })
		}
		for j := range s.Claims[i].Limits {
			if len(s.Claims[i].Limits) > 1 {
				add(func(n *Step) { n.Claims[i].Limits = slices.Delete(slices.Clone(n.Claims[i].Limits), j, j+1) })
			}
		}
		for _, change := range []func(*core.Claim){
			func(c *core.Claim) { c.Cost = 1 }, func(c *core.Claim) { c.DryRun = false }, func(c *core.Claim) { c.Peek = false },
			func(c *core.Claim) { c.Hold = false }, func(c *core.Claim) { c.MaxWait = 0 },
		} {
			add(func(n *Step) { change(&n.Claims[i]) })
		}
	}
	return all
}
