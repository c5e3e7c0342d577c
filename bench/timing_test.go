package main

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// slow admits every request after a microsecond.
func slow(string) bool {
	time.Sleep(time.Microsecond)
	return true
}

func TestDecisionsTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t.Context(), 1, false, io.Discard)
		for name, c := range map[string]struct {
			loop loop
			want float64 // nanoseconds per decision
		}{
			"one after another": {overKeys(slow, []string{"a", "b", "c"}), 1000},
			"two at a time":     {parallel([]loop{overKeys(slow, []string{"a"}), overKeys(slow, []string{"a"})}), 500},
		} {
			measure := e.decisions(c.loop, admitted)
			start := time.Now()
			for range 2 {
				expect.Equal(t, must.Get(measure())(t)[0], c.want, "%s: ns", name)
			}
			took := time.Since(start)
			expect.True(t, took >= 2*e.slice && took <= 3*e.slice, "%s: two slices of %v took %v", name, e.slice, took)
		}
	})
}

func TestInTurnAsksForAKeySeveralTimes(t *testing.T) {
	var asked string
	l := inTurn(func(key string) bool {
		asked += key
		return key == "a"
	}, []string{"a", "b"}, 3)
	n := l(4) + l(4)
	expect.True(t, n == 5 && asked == "aaabbbaa", "asked for %s, admitted %d", asked, n)
}

// A contestant that this process opened would share its heap.
func TestEntriesApartAreOpenedInTheirProcesses(t *testing.T) {
	found, ok := find("Limiter.Take, one hot key")
	must.True(t, ok && found.apart, "there is no such row, or not apart: %v", ok)
	opened, r := 0, *found
	r.open = func(e *env, f *setup) error {
		err := found.open(e, f)
		for i := range f.entries {
			open := f.entries[i].open
			f.entries[i].open = func() measure { opened++; return open() }
		}
		return err
	}
	for _, single := range []bool{false, true} {
		e := newEnv(t.Context(), 1, true, io.Discard)
		e.single, opened = single, 0
		o := must.Get(e.run(&r))(t)
		if want := map[bool]int{true: len(takers())}[single]; opened != want || len(o.results) != len(takers()) || o.get(throttled)[0] <= 0 {
			t.Errorf("in a single process %v: opened %d entries in this one, want %d: %+v", single, opened, want, o.results)
		}
	}
}

func TestParallelLoopsMakeAllDecisions(t *testing.T) {
	for _, cores := range []int{1, 2, 3, 8} {
		all := parallel(slices.Repeat([]loop{func(n int) int { return n }}, cores))
		for n := range 10 {
			got := all(n)
			expect.True(t, got == n, "%d loops make %d decisions of %d", cores, got, n)
		}
	}
}

func TestLoadTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t.Context(), 1, false, io.Discard)
		calls := 0
		s := &peers.Store{Worker: func() peers.Take {
			return func(key string) bool {
				if calls++; calls%10 == 0 { // one in ten takes longer
					time.Sleep(2 * time.Millisecond)
				}
				time.Sleep(time.Millisecond)
				return true
			}
		}}
		got, err := e.load(s, 1, uniform(10), admitted, throughput)()
		expect.True(t, err == nil && got[0] >= 800 && got[0] <= 850 && got[1] == 3000,
			"one caller: %v, %v, want about 833 per second and a p99 of 3000 µs", got, err)
		got, err = e.load(s, 1, uniform(10), admitted, typical)()
		expect.True(t, err == nil && got[0] == 1000 && got[1] == 3000, "one caller: %v, %v, want 1000 µs and a p99 of 3000 µs", got, err)
	})
}

func TestRunTakesTurns(t *testing.T) {
	e := newEnv(t.Context(), 3, false, io.Discard)
	var order string
	entry := func(name string, values ...float64) func() (sample, error) {
		return func() (sample, error) {
			order += name
			v := values[0]
			values = values[1:]
			return sample{v}, nil
		}
	}
	closed := ""
	o := must.Get(e.run(&row{open: func(_ *env, f *setup) error {
		f.onClose(func() { closed += "1" })
		f.onClose(func() { closed += "2" })
		f.add("a", baseline, entry("a", 5, 1, 3))
		f.add("b", ours, entry("b", 10, 70, 20))
		return nil
	}}))(t)
	expect.Equal(t, order, "abbaab", "turns")
	expect.True(t, o.results[0].name == "b" && o.get("b")[0] == 20 && o.get("a")[0] == 3,
		"got %+v, want ours first, with medians", o.results)
	expect.Equal(t, closed, "21", "closed in the order (the last first)")
}

func TestRunStopsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := newEnv(ctx, 3, false, io.Discard)
	slices := 0
	_, err := e.run(&row{open: func(_ *env, f *setup) error {
		f.add("a", ours, func() (sample, error) {
			slices++
			cancel()
			return sample{0}, nil
		})
		return nil
	}})
	expect.True(t, err != nil && slices == 1, "%d slices, %v, want an error after one", slices, err)
}
