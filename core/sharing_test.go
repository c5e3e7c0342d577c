package core_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

func withLimits(name string, limits ...core.Limit) core.Rule {
	return core.Rule{Name: name, Key: constKey, Limits: limits}
}

func TestOneNameHasOneSetOfLimitsPerStore(t *testing.T) {
	first := []core.Rule{withLimits("a", core.PerMinute(5), core.PerHour(9)), withLimits("b", core.PerMinute(1))}
	tests := []struct {
		why   string
		rules []core.Rule
		want  string // empty: no mistake
	}{
		{"other names", []core.Rule{withLimits("c", core.PerMinute(7))}, ""},
		{"equal limits", []core.Rule{withLimits("a", core.PerMinute(5), core.PerHour(9))}, ""},
		{"equal limits in another order", []core.Rule{withLimits("a", core.PerHour(9), core.PerMinute(5))}, ""},
		{"another rate", []core.Rule{withLimits("a", core.PerMinute(6), core.PerHour(9))}, `rule "a": a limiter with the same store has a rule of this name with the limits [5/1m 9/1h], got [6/1m 9/1h]; use another name or Limiter.SetRules`},
		{"another burst", []core.Rule{withLimits("b", core.PerMinute(1).WithBurst(3))}, `rule "b"`},
		{"fewer limits", []core.Rule{withLimits("a", core.PerMinute(5))}, `rule "a"`},
		{"another algorithm", []core.Rule{withLimits("b", core.PerMinute(1).Using(core.FixedWindow))}, `rule "b"`},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			store, fallback := new(core.MemoryStore), new(core.MemoryStore)
			l := core.Must(core.New(first, core.WithStore(store), core.WithFallback(fallback)))
			for _, opt := range []core.Option{core.WithStore(store), core.WithFallback(store), core.WithStore(fallback)} {
				_, err := core.New(tt.rules, opt)
				if tt.want == "" && err != nil {
					t.Error(err)
				}
				if tt.want != "" {
					wantError(t, err, core.ErrInvalid, tt.want)
				}
			}
			if _, err := core.New(tt.rules, core.WithStore(new(core.MemoryStore))); err != nil {
				t.Errorf("with another store: %v", err)
			}
			runtime.KeepAlive(l)
		})
	}
}

func TestSharedStoreMistakesComeWithAllOthers(t *testing.T) {
	store := new(core.MemoryStore)
	l := core.Must(core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(store)))
	_, err := core.New([]core.Rule{withLimits("a", core.PerMinute(6)), withLimits("b")}, core.WithStore(store), core.WithTimeout(-1))
	if got := strings.Count(err.Error(), "\n") + 1; got != 3 {
		t.Errorf("got %d mistakes, want 3:\n%v", got, err)
	}
	runtime.KeepAlive(l)
}

func TestSetRulesChangesLimitsOnASharedStore(t *testing.T) {
	store := new(core.MemoryStore)
	a := core.Must(core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(store)))
	b := core.Must(core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(store)))
	for _, l := range []*core.Limiter{a, b} {
		if err := l.SetRules([]core.Rule{withLimits("a", core.PerMinute(50))}); err != nil {
			t.Error(err)
		}
	}
	_, err := core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(store))
	wantError(t, err, core.ErrInvalid, "with the limits [50/1m], got [5/1m]")
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

func TestLimitersThatWereDroppedDoNotCount(t *testing.T) {
	store := new(core.MemoryStore)
	for n := range 5 {
		_, err := core.New([]core.Rule{withLimits("a", core.PerMinute(n))}, core.WithStore(store))
		for deadline := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(deadline); {
			runtime.GC() // it may take more than one
			_, err = core.New([]core.Rule{withLimits("a", core.PerMinute(n))}, core.WithStore(store))
		}
		if err != nil {
			t.Fatalf("the limiter before is no longer in use: %v", err)
		}
	}
}

// An emptyStore has no fields, so all its values are equal, and pointers to them may be.
type emptyStore struct{}

func (emptyStore) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	return new(core.MemoryStore).Take(context.Background(), claims, dst)
}
func (emptyStore) Settle(context.Context, []core.Settlement) error { return nil }
func (emptyStore) Reset(context.Context, []core.Pair) error        { return nil }

func TestStoresWithoutFieldsAreNotOneStore(t *testing.T) {
	for why, stores := range map[string][2]core.Store{
		"values":   {emptyStore{}, emptyStore{}},
		"pointers": {new(emptyStore), new(emptyStore)},
		"embedded": {struct{ emptyStore }{}, struct{ emptyStore }{}},
	} {
		var kept []*core.Limiter
		for i, s := range stores {
			l, err := core.New([]core.Rule{withLimits("a", core.PerMinute(i+1))}, core.WithStore(s), core.WithFallback(s))
			if err != nil {
				t.Errorf("%s: %v", why, err)
			}
			kept = append(kept, l)
		}
		runtime.KeepAlive(kept)
	}
}

// funcStore is a store of a type whose values cannot be compared.
type funcStore struct {
	core.Store
	_ func()
}

func TestStoresThatCannotBeCompared(t *testing.T) {
	s := funcStore{Store: new(core.MemoryStore)}
	a := core.Must(core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(s), core.WithTimeout(time.Second)))
	if _, err := core.New([]core.Rule{withLimits("a", core.PerMinute(6))}, core.WithStore(s)); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(a)
}

func TestSkipsAddUp(t *testing.T) {
	l := core.Must(core.New([]core.Rule{named("a")}, core.WithSkip(hasPath("/health")), core.WithSkip(hasPath("/ready"))))
	for path, want := range map[string]int{"/health": 0, "/ready": 0, "/": 1} {
		if got := applied(t, l, get(path)); len(got) != want {
			t.Errorf("%s: rules %q apply, want %d", path, got, want)
		}
	}
}

// A sharingStore shares its state with all stores whose state is equal.
type sharingStore struct {
	core.Store
	state any
}

func (s *sharingStore) SharedState() any { return s.state }

// Two stores may share the states of their limits.
func TestStoresThatShareStateHaveOneSetOfLimits(t *testing.T) {
	type state struct{ of any }
	with := func(of any) core.Store { return &sharingStore{new(core.MemoryStore), of} }
	first := with(state{"a"})
	l := core.Must(core.New([]core.Rule{withLimits("", core.PerMinute(5))}, core.WithStore(first)))
	odd := with(state{[]int{1}})
	m := core.Must(core.New([]core.Rule{withLimits("", core.PerMinute(5))}, core.WithFallback(odd)))
	other := []core.Rule{withLimits("", core.PerMinute(6))}
	for name, s := range map[string]core.Store{"the same": first, "an equal one": with(state{"a"}), "one that only equals itself": odd} {
		for _, opt := range []core.Option{core.WithStore(s), core.WithFallback(s)} {
			if _, err := core.New(other, opt); err == nil || !strings.Contains(err.Error(), `limits [5/1m], got [6/1m]; use another name`) {
				t.Errorf("%s: %v, want the mistake that the limits differ", name, err)
			}
		}
	}
	for name, s := range map[string]core.Store{
		"another": with(state{"b"}), "of another type": with("a"), "not comparable": with(state{[]int{1}}), "nil": with(nil),
	} {
		if _, err := core.New(other, core.WithStore(s)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(m)
}
