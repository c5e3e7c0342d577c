package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestWhenAFlightLeaves(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	flying := func(load int, age, left time.Duration) *flight {
		f := &flight{load: load, left: now.Add(-age)}
		if left != 0 {
			f.deadline = now.Add(left)
		}
		return f
	}
	for _, row := range []struct {
		why    string
		flying []*flight
		load   int
		want   bool
	}{
		{"nobody is in the air", nil, 1, true},
		{"as large as the one in the air", []*flight{flying(8, 0, 0)}, 8, true},
		{"smaller", []*flight{flying(8, 0, 0)}, 7, false},
		{"smaller, but that one is late", []*flight{flying(8, slow+1, 0)}, 7, true},
		{"as large as the first of two", []*flight{flying(8, 0, 0), flying(9, 0, 0)}, 8, true},
		{"smaller than the first of two", []*flight{flying(8, 0, 0), flying(7, 0, 0)}, 7, false},
		{"three are in the air", []*flight{flying(1, time.Hour, 0), flying(1, time.Hour, 0), flying(1, time.Hour, 0)}, 100, false},
		{"one of three is overdue", []*flight{flying(1, 0, -1), flying(1, 0, time.Second), flying(1, 0, time.Second)}, 1, true},
		{"one of three is due now", []*flight{flying(1, 0, 0), flying(1, time.Hour, time.Nanosecond), flying(1, time.Hour, 0)}, 1, false},
	} {
		l := lane{flying: row.flying}
		if got := l.free(&flight{load: row.load}, now); got != row.want {
			t.Errorf("%s: leaves %v, want %v", row.why, got, row.want)
		}
	}
}

// busy returns a store whose lane is held by flights that never land.
func busy(t *testing.T) (*Store, *lane) {
	s := frozenStore(t)
	l := new(lane)
	for range maxFlying {
		l.flying = append(l.flying, &flight{lane: l})
	}
	s.lanes.byName[""] = l
	return s, l
}

func TestFlightsAreBounded(t *testing.T) {
	for _, row := range []struct {
		limits   string
		requests int
		want     []int // requests of each flight
	}{
		{"5/m", 300, []int{256, 44}},
		{"5/m, 9/h", 200, []int{128, 72}},
		{"5/m;sliding-log", 40, []int{32, 8}},
		{"5/m, 9/h;fixed-window", 30, []int{28, 2}},
	} {
		s, l := busy(t)
		for i := range row.requests {
			s.board(context.Background(), patience{}, s.partOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits(row.limits)}))
		}
		var got []int
		for _, f := range l.waiting {
			got = append(got, len(f.parts))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: flights of %d requests, want %d", row.limits, got, row.want)
		}
	}
}

func TestWhoGivesUpInTimeIsNotDecided(t *testing.T) {
	s, l := busy(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	claim := core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")}
	if _, err := s.Take(ctx, []core.Claim{claim}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want a deadline exceeded", err)
	}
	if n := l.waiting[0].load; n != 0 {
		t.Errorf("a flight without anybody has a load of %d", n)
	}
	l.flying = nil // they have landed
	claim.Peek = true
	results, err := s.Take(context.Background(), []core.Claim{claim}, nil)
	if err != nil || results[0].Remaining != 5 {
		t.Errorf("%+v, %v, want all 5 to remain", results, err)
	}
	if len(l.waiting) > 0 {
		t.Errorf("%d flights wait for nobody", len(l.waiting))
	}
	if n, m := len(s.lanes.byName), len(s.running); n+m > 0 {
		t.Errorf("%d lanes and %d calls are left", n, m)
	}
}

// Who no longer waits for a call that hangs sees to it that others need not either, though nobody else comes.
func TestWhoGivesUpTooLateLetsOthersLeave(t *testing.T) {
	s, l := busy(t)
	p := s.partOf(t, core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")})
	f, _ := s.board(t.Context(), patienceOf(t.Context()), p)
	for _, hangs := range l.flying {
		hangs.deadline = time.Now().Add(-time.Millisecond)
	}
	if s.leave(l.flying[0], new(part)) {
		t.Error("a flight in the air was left")
	}
	<-f.done
	if err := p.read(); err != nil || p.usages[0].remaining != 4 {
		t.Errorf("%+v, %v, want 4 remaining", p.usages, err)
	}
}

func TestTooManyCallsFailAtOnce(t *testing.T) {
	s := frozenStore(t)
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	for range maxRunning {
		s.running <- struct{}{}
	}
	for _, ctx := range []context.Context{context.Background(), t.Context()} { // with and without a goroutine
		if _, err := s.Take(ctx, claims, nil); !errors.Is(err, errCrowded) || errors.Is(err, core.ErrInvalid) {
			t.Errorf("%v, want %v", err, errCrowded)
		}
	}
	if n := len(s.lanes.byName); n > 0 {
		t.Errorf("%d lanes are left", n)
	}
	for range maxRunning {
		<-s.running
	}
	if results, err := s.Take(context.Background(), claims, nil); err != nil || results[0].Remaining != 4 {
		t.Errorf("%+v, %v, want 4 remaining", results, err)
	}
}

func TestWhoHasGivenUpBeforeIsNotDecided(t *testing.T) {
	s := frozenStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	for range 20 {
		if _, err := s.Take(ctx, claims, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
	}
	if results, err := s.Take(context.Background(), claims, nil); err != nil || results[0].Remaining != 4 {
		t.Errorf("%+v, %v, want 4 remaining", results, err)
	}
}

func TestAFlightIsAsPatientAsItsLastPart(t *testing.T) {
	early, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	late, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	want, _ := late.Deadline()
	never := context.Background()
	for _, row := range []struct {
		why  string
		ctxs []context.Context
		want time.Time
	}{
		{"the latest of all", []context.Context{early, late, early}, want},
		{"the first may have none", []context.Context{never, late}, time.Time{}},
		{"the last may have none", []context.Context{early, never}, time.Time{}},
	} {
		var f flight
		for _, ctx := range row.ctxs {
			f.add(ctx, patienceOf(ctx), &part{request: new(request)})
		}
		if !f.deadline.Equal(row.want) {
			t.Errorf("%s: %v, want %v", row.why, f.deadline, row.want)
		}
	}
}
