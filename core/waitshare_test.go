package core_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// TestOnePeerTakesAQuarter has requests of made-up keys wait, and checks how many of one peer may.
func TestOnePeerTakesAQuarter(t *testing.T) {
	for why, row := range map[string]struct {
		peer func(i int) string // of request i
		want int                // requests that wait
	}{
		"one connection":           {func(int) string { return "192.0.2.1:1234" }, 2},
		"connections of a host":    {func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 1000+i) }, 2},
		"mapped and plain":         {func(i int) string { return []string{"192.0.2.1:1", "[::ffff:192.0.2.1]:1"}[i%2] }, 2},
		"hosts of an IPv6 network": {func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i+1) }, 2},
		"a connection of a proxy":  {func(int) string { return "10.0.0.1:1" }, 2},
		"connections of a proxy":   {func(i int) string { return fmt.Sprintf("[::1]:%d", i+1) }, 8},
		"a Unix socket":            {func(int) string { return "@" }, 8},
		"several hosts":            {func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i+1) }, 8},
		"several IPv6 networks":    {func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:1", i+1) }, 8},
		"no address":               {func(int) string { return "" }, 8},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &hooked{take: func() {}}
				r := waiting("1/s;burst=1", time.Hour)
				r.Key = func(r *http.Request) (string, error) { return r.Header.Get("Key"), nil }
				l := core.Must(core.New([]core.Rule{r}, core.WithMaxWaiting(8), core.WithStore(s)))
				denied := 0
				var all sync.WaitGroup
				for i := range 20 { // two of each key: one goes at once
					all.Go(func() {
						r := get("/")
						r.RemoteAddr = row.peer(i / 2)
						r.Header.Set("Key", fmt.Sprint("made up ", i/2))
						g, err := l.Guard(t.Context(), r, nil)
						defer g.End()
						if err != nil {
							t.Error(err)
						}
						if !g.Admitted() {
							if denied++; g.Decision().RetryAfter() != time.Second {
								t.Errorf("denied for %v, want 1s", g.Decision().RetryAfter())
							}
						}
					})
					synctest.Wait()
				}
				if n := l.StoreHealth().Waiting; n != row.want || denied != 10-row.want || s.takes != 20 || s.settles != 0 {
					t.Errorf("%d wait and %d were denied in %d takes and %d settles, want %d and %d in 20 and 0", n, denied, s.takes, s.settles, row.want, 10-row.want)
				}
				if all.Wait(); l.StoreHealth().Waiting != 0 {
					t.Errorf("%d still wait", l.StoreHealth().Waiting)
				}
			})
		})
	}
}

// TestOneKeyTakesAQuarterOfItsRule checks that a key at its bound does not stop requests that wait for another rule.
func TestOneKeyTakesAQuarterOfItsRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := waiting("1/m;burst=2", time.Hour)
		other.Name = "other"
		l := core.Must(core.New([]core.Rule{waiting("1/m;burst=1", time.Hour), other}, core.WithMaxWaiting(8)))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 { // one goes at once
			all.Go(func() { _, _ = l.Wait(ctx, job) })
			synctest.Wait()
		}
		both := []core.Claim{job, {Rule: "other", Key: "k"}}
		if d, err := l.Wait(ctx, both...); err != nil || d.Allowed || d.RetryAfter() != 3*time.Minute || !d.Results[1].Allowed {
			t.Errorf("%+v, %v; want a denial for 3m", d, err)
		}
		for range 4 { // two go at once
			all.Go(func() { _, _ = l.Wait(ctx, both[1]) })
			synctest.Wait()
		}
		if n := l.StoreHealth().Waiting; n != 4 {
			t.Errorf("%d requests wait, want 4", n)
		}
		cancel()
		all.Wait()
	})
}
