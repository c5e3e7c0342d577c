package storetest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
)

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
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenStore$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), which+"="+name)
			out, err := cmd.CombinedOutput()
			if want := "--- FAIL: TestBrokenStore/" + strings.ReplaceAll(b.finds, " ", "_"); err == nil || !strings.Contains(string(out), want+" (") {
				t.Errorf("the suite ended with %v, without %q:\n%s", err, want, out)
			}
		})
	}
}

// A breakage makes a store of a sound one. A nil func leaves it sound in that respect.
type breakage struct {
	finds  string // the row that must fail
	take   func(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error)
	settle func(m *core.MemoryStore, claims []core.Claim) error
	reset  func(m *core.MemoryStore, claims []core.Claim) error
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

func (b *broken) Settle(ctx context.Context, claims []core.Claim) error {
	if b.settle == nil {
		return b.sound.Settle(ctx, claims)
	}
	return b.settle(&b.sound, claims)
}

func (b *broken) Reset(ctx context.Context, claims []core.Claim) error {
	if b.reset == nil {
		return b.sound.Reset(ctx, claims)
	}
	return b.reset(&b.sound, claims)
}

type taker = func(*core.MemoryStore, []core.Claim, []core.Result) ([]core.Result, error)

// asking returns a take that has its claims changed first. The results look as if they had not been.
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

var brokenStores = map[string]breakage{
	"charges peeks":          {finds: "a peek decides for its cost and charges nothing", take: asking(func(_ int, c *core.Claim) { c.Peek = false })},
	"enforces dry runs":      {finds: "a dry run is charged while it fits, and never denies", take: asking(func(_ int, c *core.Claim) { c.DryRun = false })},
	"charges no dry runs":    {finds: "a dry run is charged while it fits, and never denies", take: asking(func(_ int, c *core.Claim) { c.Peek = c.Peek || c.DryRun })},
	"takes claims apart":     {finds: "a claim that is denied keeps all other claims uncharged, before and after it", take: oneByOne},
	"looks, then charges":    {finds: "many at once on one key are admitted exactly as many as the limit", take: lookThenCharge},
	"has no clock":           {finds: "decisions are made now, by a clock that does not go back", take: telling(func(r *core.Result) { r.At = time.Unix(0, 0) })},
	"forgets dst":            {finds: "results are appended", take: forgetful},
	"allows negative costs":  {finds: "a claim at fault is ErrInvalid, and charges nothing", take: asking(func(_ int, c *core.Claim) { c.Cost = max(0, c.Cost) })},
	"joins rule and key":     {finds: "rules and keys of any bytes never meet", take: asking(func(_ int, c *core.Claim) { c.Rule, c.Key = "a", c.Rule+":"+c.Key })},
	"cuts keys off":          {finds: "rules and keys of any bytes never meet", take: asking(func(_ int, c *core.Claim) { c.Key = c.Key[:min(len(c.Key), 128)] })},
	"keeps tiers apart":      {finds: "10 of 10 used, upgraded to 100, leaves 90 in a token bucket", take: asking(func(_ int, c *core.Claim) { c.Key += fmt.Sprint(c.Limits) })},
	"decides a pair twice":   {finds: "the same rule and key twice are decided and charged as their sum", take: asking(func(i int, c *core.Claim) { c.Key += fmt.Sprint(i) })},
	"cuts costs off":         {finds: "a token bucket never admits a cost above its capacity, and charges nothing", take: asking(func(_ int, c *core.Claim) { c.Cost = min(c.Cost, 5) })},
	"halves waits":           {finds: "a token bucket keeps what its waits promise", take: telling(func(r *core.Result) { r.RetryAfter -= r.RetryAfter / 2 })},
	"says when it is empty":  {finds: "10 of 10 used, upgraded to 100, leaves 90 in a token bucket", take: telling(func(r *core.Result) { r.Remaining = 0 })},
	"has refills for resets": {finds: "a burst is back when its reset says so", take: telling(func(r *core.Result) { r.ResetAfter = r.RefillAfter })},
	"refunds nothing":        {finds: "a refund at once restores what was charged", settle: func(*core.MemoryStore, []core.Claim) error { return nil }},
	"refunds the first claim": {finds: "a refund concerns all limits of all claims, but no peeks and no other keys", settle: func(m *core.MemoryStore, claims []core.Claim) error {
		return m.Settle(context.Background(), claims[:1])
	}},
	"refunds as of now": {finds: "a refund after its window gives back nothing of the next", settle: func(m *core.MemoryStore, claims []core.Claim) error {
		claims = slices.Clone(claims)
		for i := range claims {
			claims[i].At = time.Now()
		}
		return m.Settle(context.Background(), claims)
	}},
	"resets on refund": {finds: "a refund leaves what others were charged", settle: func(m *core.MemoryStore, claims []core.Claim) error {
		return m.Reset(context.Background(), claims)
	}},
	"settles for nothing": {finds: "settling for less gives back the difference", settle: func(m *core.MemoryStore, claims []core.Claim) error {
		claims = slices.Clone(claims)
		for i := range claims {
			claims[i].Final = 0
		}
		return m.Settle(context.Background(), claims)
	}},
	"takes its time": {finds: "each call returns when its context is done", take: slow},
	"takes its time to reset": {finds: "each call returns when its context is done", reset: func(m *core.MemoryStore, claims []core.Claim) error {
		time.Sleep(time.Second)
		return m.Reset(context.Background(), claims)
	}},
	"resets nothing": {finds: "a reset forgets all limits and tiers of a key, and nothing else", reset: func(*core.MemoryStore, []core.Claim) error { return nil }},
	"resets all rules": {finds: "a reset forgets all limits and tiers of a key, and nothing else", reset: func(m *core.MemoryStore, claims []core.Claim) error {
		for _, rule := range []string{"rule", "second"} {
			m.Reset(context.Background(), []core.Claim{{Rule: rule, Key: claims[0].Key}})
		}
		return nil
	}},
}
