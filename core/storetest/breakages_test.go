package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
)

type taker = func(*core.MemoryStore, []core.Claim, []core.Result) ([]core.Result, error)

// asking returns a take that changes the claims first. The results look as if it had not.
func asking(change func(i int, c *core.Claim)) taker {
	return func(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
		changed := append([]core.Claim(nil), claims...)
		for i := range changed {
			change(i, &changed[i])
		}
		results, err := m.Take(context.Background(), changed, dst)
		i := len(dst)
		for _, c := range claims {
			for range c.Limits {
				if err == nil {
					results[i].Rule, results[i].DryRun = ruleName(c.Rule), c.DryRun
					i++
				}
			}
		}
		return results, err
	}
}

// settling returns a settle that changes the settlements first.
func settling(change func(st *core.Settlement)) func(*core.MemoryStore, []core.Settlement) error {
	return func(m *core.MemoryStore, settlements []core.Settlement) error {
		changed := slices.Clone(settlements)
		for i := range changed {
			change(&changed[i])
		}
		return m.Settle(context.Background(), changed)
	}
}

func ruleName(rule string) string {
	if rule == "" {
		return "default"
	}
	return rule
}

// telling returns a take whose results are changed afterwards.
func telling(change func(r *core.Result)) taker {
	return func(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
		results, err := m.Take(context.Background(), claims, dst)
		for i := range results {
			change(&results[i])
		}
		return results, err
	}
}

// windowsOf returns a take that decides limits of calendars by others. If those are of another unit, the waits in its
// results are still right.
func windowsOf(other func(core.Limit) core.Limit) taker {
	return func(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
		changed := slices.Clone(claims)
		for i := range changed {
			changed[i].Limits = slices.Clone(changed[i].Limits)
			for j, l := range changed[i].Limits {
				if l.Calendar.Unit != 0 {
					changed[i].Limits[j] = other(l)
				}
			}
		}
		results, err := m.Take(context.Background(), changed, dst)
		i := len(dst)
		for _, c := range claims {
			for _, l := range c.Limits {
				if err != nil {
					return results, err
				}
				r := &results[i]
				if _, end := l.Calendar.Window(r.At); r.Limit.Calendar.Unit != l.Calendar.Unit {
					for _, wait := range []*time.Duration{&r.RetryAfter, &r.RefillAfter, &r.ResetAfter} {
						if *wait > 0 && *wait < core.Never {
							*wait = end.Sub(r.At).Truncate(time.Microsecond)
						}
					}
				}
				r.Limit = l
				i++
			}
		}
		return results, err
	}
}

func oneByOne(m *core.MemoryStore, claims []core.Claim, dst []core.Result) (_ []core.Result, err error) {
	for i := range claims {
		if dst, err = m.Take(context.Background(), claims[i:i+1], dst); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// lookThenCharge decides and charges in two steps, with time for others between them.
func lookThenCharge(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	look := append([]core.Claim(nil), claims...)
	for i := range look {
		look[i].Peek = true
	}
	results, err := m.Take(context.Background(), look, dst)
	time.Sleep(time.Microsecond)
	if err == nil {
		_, err = m.Take(context.Background(), claims, nil)
	}
	return results, err
}

// slow takes a second, whatever its context says.
func slow(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	time.Sleep(time.Second)
	return m.Take(context.Background(), claims, dst)
}

func forgetful(m *core.MemoryStore, claims []core.Claim, _ []core.Result) ([]core.Result, error) {
	return m.Take(context.Background(), claims, nil)
}

// forget has m give up a hold before it ends.
func forget(m *core.MemoryStore, held core.Settlement) {
	time.AfterFunc(time.Minute-time.Millisecond, func() { _ = m.Settle(context.Background(), []core.Settlement{held}) })
}

var brokenStores = map[string]breakage{
	"charges peeks":          {finds: "a peek decides for its cost and charges nothing", take: asking(func(_ int, c *core.Claim) { c.Peek = false })},
	"enforces dry runs":      {finds: "a dry run is charged while it fits, and never denies", take: asking(func(_ int, c *core.Claim) { c.DryRun = false })},
	"charges no dry runs":    {finds: "a dry run is charged while it fits, and never denies", take: asking(func(_ int, c *core.Claim) { c.Peek = c.Peek || c.DryRun })},
	"takes claims apart":     {finds: "if one claim is denied, no other claim is charged, before or after it", take: oneByOne},
	"looks, then charges":    {finds: "of many concurrent requests of a key, exactly the limit is admitted", take: lookThenCharge},
	"has no clock":           {finds: "decisions are made now, by a clock that does not go back", take: telling(func(r *core.Result) { r.At = time.Unix(0, 0) })},
	"forgets dst":            {finds: "results are appended", take: forgetful},
	"allows negative costs":  {finds: "an invalid claim is ErrInvalid, and nothing is charged", take: asking(func(_ int, c *core.Claim) { c.Cost = max(0, c.Cost) })},
	"joins rule and key":     {finds: "rules and keys of any bytes never share state", take: asking(func(_ int, c *core.Claim) { c.Rule, c.Key = "a", c.Rule+":"+c.Key })},
	"cuts keys off":          {finds: "rules and keys of any bytes never share state", take: asking(func(_ int, c *core.Claim) { c.Key = c.Key[:min(len(c.Key), 128)] })},
	"keeps tiers apart":      {finds: "10 of 10 used, upgraded to 100, leaves 90 in a token bucket", take: asking(func(_ int, c *core.Claim) { c.Key += fmt.Sprint(c.Limits) })},
	"decides a pair twice":   {finds: "the same rule and key twice are decided and charged as their sum", take: asking(func(i int, c *core.Claim) { c.Key += fmt.Sprint(i) })},
	"cuts costs off":         {finds: "a token bucket never admits a cost above its capacity, and charges nothing", take: asking(func(_ int, c *core.Claim) { c.Cost = min(c.Cost, 5) })},
	"halves waits":           {finds: "the waits of a token bucket are long enough", take: telling(func(r *core.Result) { r.RetryAfter -= r.RetryAfter / 2 })},
	"says when it is empty":  {finds: "10 of 10 used, upgraded to 100, leaves 90 in a token bucket", take: telling(func(r *core.Result) { r.Remaining = 0 })},
	"has refills for resets": {finds: "a burst is available again after its reset", take: telling(func(r *core.Result) { r.ResetAfter = r.RefillAfter })},
	"refunds nothing":        {finds: "a refund at once restores what was charged", settle: func(*core.MemoryStore, []core.Settlement) error { return nil }},
	"refunds the first claim": {finds: "a refund gives back to all limits of all claims, and to no other keys", settle: func(m *core.MemoryStore, settlements []core.Settlement) error {
		return m.Settle(context.Background(), settlements[:1])
	}},
	"refunds as of now": {finds: "a refund after its window gives back nothing of the next", settle: settling(func(st *core.Settlement) { st.At = time.Now() })},
	"resets on refund": {finds: "a refund leaves the charges of others", settle: func(m *core.MemoryStore, settlements []core.Settlement) error {
		return m.Reset(context.Background(), []core.Pair{{Rule: settlements[0].Rule, Key: settlements[0].Key}})
	}},
	"settles for nothing": {finds: "settling for less gives back the difference", settle: settling(func(st *core.Settlement) { st.Final = 0 })},
	"settles one by one": {finds: "an invalid settlement is ErrInvalid, and nothing is settled", settle: func(m *core.MemoryStore, settlements []core.Settlement) error {
		for i := range settlements {
			if err := m.Settle(context.Background(), settlements[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}},
	"settles what it can": {finds: "an invalid settlement is ErrInvalid, and nothing is settled", settle: func(m *core.MemoryStore, settlements []core.Settlement) error {
		if err := m.Settle(context.Background(), settlements); !errors.Is(err, core.ErrInvalid) {
			return err
		}
		return nil
	}},
	"holds nothing": {finds: "a hold counts like a charge, and leaves nothing when it is settled at 0", take: asking(func(_ int, c *core.Claim) { c.Peek = c.Peek || c.Hold })},
	"forgets holds": {finds: "a hold that nobody settles is charged when it ends", take: func(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
		results, err := m.Take(context.Background(), claims, dst)
		if err == nil {
			for i, c := range claims {
				if c.Hold && results[len(dst)].Allowed {
					forget(m, core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: results[len(dst)].At, Cost: claims[i].Cost, Held: true})
				}
			}
		}
		return results, err
	}},
	"charges holds": {finds: "a hold does not drain, and its final cost is charged when it is settled", take: asking(func(_ int, c *core.Claim) { c.Hold = false })},
	"holds one of a claim": {finds: "a hold counts like a charge, and leaves nothing when it is settled at 0", take: asking(func(_ int, c *core.Claim) {
		if c.Hold {
			c.Cost = 1
		}
	})},
	"does not ban": {finds: "a ban lasts for its duration, under every limit", settle: func(m *core.MemoryStore, settlements []core.Settlement) error {
		if settlements[0].Ban > 0 {
			return nil
		}
		return m.Settle(context.Background(), settlements)
	}},
	"renews by settling": {finds: "a renewal keeps a hold and returns its new instant", settle: settling(func(st *core.Settlement) { st.Renew = false })},
	"keeps rates apart": {finds: "10 of 10 used, upgraded to 100, leaves 90 in a token bucket", take: asking(func(_ int, c *core.Claim) {
		c.Key += c.Limits[0].String()
	})},
	"lets nobody wait": {finds: "a request that may wait gets the next turn, and is denied if the turn is too late", take: asking(func(_ int, c *core.Claim) { c.MaxWait = 0 })},
	"books peeks":      {finds: "a peek says when the turn would be, and books nothing", take: asking(func(_ int, c *core.Claim) { c.Peek = c.Peek && c.MaxWait == 0 })},
	"books no dry runs": {finds: "a dry run books its turn", take: asking(func(_ int, c *core.Claim) {
		if c.DryRun {
			c.MaxWait = 0
		}
	})},
	"gives back any turn": {finds: "a request that did not wait gives nothing back while others wait behind it", settle: settling(func(st *core.Settlement) { st.MaxWait, st.Wait = 0, 0 })},
	"keeps every turn": {finds: "the last turn is free once it is given back; other turns are not", settle: func(m *core.MemoryStore, settlements []core.Settlement) error {
		if settlements[0].MaxWait > 0 {
			return nil
		}
		return m.Settle(context.Background(), settlements)
	}},
	"takes its time": {finds: "each call returns when its context is done", take: slow},
	"takes its time to reset": {finds: "each call returns when its context is done", reset: func(m *core.MemoryStore, pairs []core.Pair) error {
		time.Sleep(time.Second)
		return m.Reset(context.Background(), pairs)
	}},
	"counts days in UTC": {finds: "a calendar window ends when the next one starts in its time zone", take: windowsOf(func(l core.Limit) core.Limit { return l.In("") })},
	"starts no window": {finds: "a calendar window admits its rate, and the next one does again", take: windowsOf(func(l core.Limit) core.Limit {
		return core.PerYear(l.Rate) // but its waits are l's
	})},
	"resets nothing": {finds: "a reset forgets all limits and tiers of a key, and nothing else", reset: func(*core.MemoryStore, []core.Pair) error { return nil }},
	"resets all rules": {finds: "a reset forgets all limits and tiers of a key, and nothing else", reset: func(m *core.MemoryStore, pairs []core.Pair) error {
		for _, rule := range []string{"rule", "second"} {
			m.Reset(context.Background(), []core.Pair{{Rule: rule, Key: pairs[0].Key}})
		}
		return nil
	}},
}

// which names the broken store that TestBrokenStore runs the suite on.
const which = "SPILLGATE_BROKEN_STORE"

func TestBrokenStore(t *testing.T) {
	b, ok := brokenStores[os.Getenv(which)]
	if !ok {
		return // it is for the processes of TestSuiteFindsBrokenStores
	}
	storetest.Run(t, storetest.Harness{New: func(*testing.T) core.Store { return &broken{breakage: b} }})
}

func TestSuiteFindsBrokenStores(t *testing.T) {
	for name, b := range brokenStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := strings.ReplaceAll(b.finds, " ", "_")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenStore$/^"+regexp.QuoteMeta(row)+"$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), which+"="+name)
			out, err := cmd.CombinedOutput()
			if want := "--- FAIL: TestBrokenStore/" + row; err == nil || !strings.Contains(string(out), want+" (") {
				t.Errorf("the suite ended with %v, without %q:\n%s", err, want, out)
			}
		})
	}
}

// A breakage breaks a sound store. A nil func leaves that method sound.
type breakage struct {
	finds  string // the row that must fail
	take   func(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error)
	settle func(m *core.MemoryStore, settlements []core.Settlement) error
	reset  func(m *core.MemoryStore, pairs []core.Pair) error
}

type broken struct {
	breakage
	sound core.MemoryStore
}

func (b *broken) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if b.take == nil {
		return b.sound.Take(ctx, claims, dst)
	}
	return b.take(&b.sound, claims, dst)
}

func (b *broken) Settle(ctx context.Context, settlements []core.Settlement) error {
	if b.settle == nil {
		return b.sound.Settle(ctx, settlements)
	}
	return b.settle(&b.sound, settlements)
}

func (b *broken) Reset(ctx context.Context, pairs []core.Pair) error {
	if b.reset == nil {
		return b.sound.Reset(ctx, pairs)
	}
	return b.reset(&b.sound, pairs)
}
