// Package xtime checks what docs/moving/x-time-rate.md says.
package xtime

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/keyfunc"
)

// A minute of requests at uneven times: both admit the same ones.
func TestSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := before(try.OK), same(try.OK)
		try.SameBytes(t, old, now, 600*time.Millisecond, "/")
		expect.Equal(t, try.Wire(t, now, "nobody", "/"), try.Wire(t, old, "nobody", "/"), "no address")
	})
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := after(try.OK)
		expect.Equal(t, try.Admitted(now, 10, try.Client, "/"), 4, "admitted of 10")
		w := try.Get(now, try.Client, "/")
		expect.True(t, w.Code == 429 && w.Header().Get("Retry-After") == "1", "%d %v", w.Code, w.Header())
	})
}

// allowed returns how many of n events at once a limiter allows.
func allowed(l *rate.Limiter, n int) (count int) {
	for range n {
		if l.Allow() {
			count++
		}
	}
	return count
}

func TestZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			limiter *rate.Limiter
			want    int
		}{
			"NewLimiter(0, 4)":        {rate.NewLimiter(0, 4), 4}, // and never again
			"NewLimiter(2, 0)":        {rate.NewLimiter(2, 0), 0},
			"NewLimiter(rate.Inf, 0)": {rate.NewLimiter(rate.Inf, 0), 100},
			"Every(0)":                {rate.NewLimiter(rate.Every(0), 4), 100},
		} {
			expect.Equal(t, allowed(test.limiter, 100), test.want, "%s: of 100", name)
			time.Sleep(24 * time.Hour)
			got := allowed(test.limiter, 100)
			expect.True(t, name != "NewLimiter(0, 4)" || got == 0, "%s: %d a day later, want 0", name, got)
		}
		for name, test := range map[string]struct {
			limit core.Limit
			want  int
		}{
			"PerSecond(0).WithBurst(4)": {core.PerSecond(0).WithBurst(4), 0},
			"PerSecond(2).WithBurst(0)": {core.PerSecond(2).WithBurst(0), 2},
		} {
			expect.Equal(t, try.Admitted(try.Limited(test.limit), 100, try.Client, "/"), test.want, "%s: of 100", name)
		}
		expect.Fails(t, expect.ErrorOf(core.New([]core.Rule{core.Every(4, 0).By(keyfunc.RemoteIP)})), "core.Every(4, 0)")
	})
}

func TestFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := rate.NewLimiter(rate.Limit(10.0/3), 10)
		every := rate.NewLimiter(rate.Every(300*time.Millisecond), 10)
		now, each := try.Limited(core.Every(10, 3*time.Second)), try.Limited(core.Every(1, 300*time.Millisecond).WithBurst(10))
		for range 2 { // full, and after three seconds full again
			for name, got := range map[string]int{
				"rate.Limit(10.0 / 3)": allowed(old, 20), "rate.Every": allowed(every, 20),
				"core.Every(10, 3s)": try.Admitted(now, 20, try.Client, "/"), "core.Every(1, 300ms)": try.Admitted(each, 20, try.Client, "/"),
			} {
				expect.Equal(t, got, 10, "%s: of 20", name)
			}
			time.Sleep(3 * time.Second)
		}
	})
}

// A client has as many IPv6 addresses as it likes, and a map has no bound.
func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := before(try.OK), after(try.OK)
		was, is := 0, 0
		for i := range 100 {
			from := "[2001:db8::" + string(rune('0'+i/10)) + string(rune('0'+i%10)) + "]:4000"
			was += try.Admitted(old, 1, from, "/")
			is += try.Admitted(now, 1, from, "/")
		}
		expect.True(t, was == 100 && is == 4, "admitted %d before, want 100; %d after, want 4", was, is)
	})
}
