package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestHealthSaysHowManyClaimsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(core.MemoryStore)
		l := core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: core.MustParseLimits("20 at once")}}, core.WithStore(store)))
		want := func(n int, why string) {
			t.Helper()
			if h := l.StoreHealth(); h.Held != n || store.Stats().Held != n {
				t.Errorf("%s: got %d and %d held, want %d", why, h.Held, store.Stats().Held, n)
			}
		}
		want(0, "at first")
		var decisions []core.Decision
		for _, key := range []string{"a", "a", "b", "c"} {
			d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: key, Hold: true})
			if err != nil {
				t.Fatal(err)
			}
			decisions = append(decisions, d)
		}
		want(4, "four claims of three keys")
		if err := l.Settle(t.Context(), decisions[0], "r", 1); err != nil {
			t.Fatal(err)
		}
		want(3, "one is settled")
		time.Sleep(59 * time.Second)
		if err := l.Renew(t.Context(), decisions[2]); err != nil {
			t.Fatal(err)
		}
		want(3, "before they expire")
		time.Sleep(7 * time.Second)
		want(1, "all but the renewed one have expired, and nobody has asked for their keys since")
		time.Sleep(time.Minute)
		want(0, "the last one has expired")
	})
}

func TestStoreOfALimiter(t *testing.T) {
	store, rules := new(core.MemoryStore), []core.Rule{core.PerHour(1).By(keyK)}
	if got := core.Must(core.New(rules, core.WithStore(store))).Store(); got != store {
		t.Errorf("got %v, want the store that was given", got)
	}
	if _, ok := core.Must(core.New(rules)).Store().(*core.MemoryStore); !ok {
		t.Error("a limiter without WithStore has no MemoryStore")
	}
	if got := new(core.Limiter).Store(); got != nil {
		t.Errorf("got %v of a limiter that New has not made", got)
	}
}
