package telemetry

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/testpass"
)

// The lines about a flood of denials, from few keys or from many, are bounded and account for all of them.
func TestFloodIsSummedUp(t *testing.T) {
	testpass.Sequential(t)
	for _, users := range []int{1, 20, 150_000} {
		t.Run(fmt.Sprint(users, " users"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := new(logRecorder)
				tel := New(Options{Log: slog.New(b)})
				const seconds, perSecond = 3, 50_000
				for i := range seconds * perSecond {
					if i%(perSecond/100) == 0 {
						time.Sleep(10 * time.Millisecond)
					}
					deny(tel, []string{"a", "b", "c"}[i%3], fmt.Sprint("user:", i%users))
				}
				for range 3 {
					tel.Flush()
				}
				time.Sleep(time.Second)
				tel.Flush()
				if n := b.sum(t, "denied"); n != seconds*perSecond {
					t.Errorf("the lines account for %d denials, want %d", n, seconds*perSecond)
				}
			})
		})
	}
}

// Lines that exceed a second's limit are not lost, whatever the number of rules.
func TestManyRulesAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(logRecorder)
		tel := New(Options{Log: slog.New(b)})
		for i := range 5000 {
			deny(tel, fmt.Sprint("rule", i%200), fmt.Sprint("user:", i%1000))
		}
		tel.Flush()
		if n := b.sum(t, "denied"); n != 5000 || len(b.lines) != 10 {
			t.Errorf("%d lines account for %d denials, want 5000", len(b.lines), n)
		}
	})
}

func TestConcurrentDenialsAreAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // otherwise a busy machine writes lines later than they are permitted
		b := new(logRecorder)
		tel := New(Options{Log: slog.New(b), Top: 8})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 5000 {
					deny(tel, "r", fmt.Sprint("user:", (i*g)%50))
				}
			})
		}
		wg.Wait()
		for range 3 { // a second may hold no more lines
			tel.Flush()
			if b.sum(t, "denied") == 40_000 {
				return
			}
			time.Sleep(time.Second)
		}
		t.Errorf("the lines account for %d denials, want 40000", b.sum(t, "denied"))
	})
}

// If a key loses its place among the most denied keys, its denials are still accounted for.
func TestDenialsOfForgottenKeysAreAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(logRecorder)
		tel := New(Options{Log: slog.New(b), Top: 1})
		for range 5 {
			deny(tel, "r", "user:a")
		}
		deny(tel, "r", "user:b")
		tel.Flush()
		if n := b.sum(t, "denied"); n != 6 {
			t.Errorf("the lines account for %d denials, want 6: %q", n, b.texts())
		}
	})
}

// More keys are due than a second has lines.
func TestDueLinesThatDoNotFitAreAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(logRecorder)
		tel := New(Options{Log: slog.New(b)})
		for i := range 27 {
			deny(tel, "r", fmt.Sprint("user:", i))
			deny(tel, "r", fmt.Sprint("user:", i))
			if i%9 == 8 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(20 * time.Second)
		deny(tel, "r", "user:last")
		time.Sleep(time.Second)
		tel.Flush()
		if n := b.sum(t, "denied"); n != 55 {
			t.Errorf("the lines account for %d denials, want 55: %q", n, b.texts())
		}
	})
}
