package redisx

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// until is a context of which only the deadline is to be watched.
type until struct {
	context.Context
	t        *testing.T
	deadline time.Time
}

func (u until) Timed() {}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }

func (u until) Done() <-chan struct{} {
	u.t.Error("asked for Done")
	return nil
}

func (u until) Err() error {
	if time.Now().Before(u.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}

// Some travel together, and each gives up at its own deadline, whoever comes first.
func TestWhoWatchesTheDeadlineGivesUpThen(t *testing.T) {
	for _, landsAfter := range []time.Duration{0, 55 * time.Millisecond} { // 0: never
		s := frozenStore(t)
		synctest.Test(t, func(t *testing.T) {
			l := new(lane)
			for range maxFlying {
				l.flying = append(l.flying, &flight{lane: l})
			}
			s.lanes.byName[""] = l
			begin := time.Now()
			limits := core.MustParseLimits("5/m")
			for i, ms := range []time.Duration{50, 30, 40, 60} {
				ctx := until{t.Context(), t, begin.Add(ms * time.Millisecond)}
				p := s.partOf(t, core.Claim{Key: fmt.Sprint(i), Limits: limits})
				go func() {
					err := s.travel(ctx, p, false)
					after := time.Since(begin)
					switch {
					case landsAfter > 0 && landsAfter < ms*time.Millisecond:
						if errors.Is(err, context.DeadlineExceeded) || after != landsAfter {
							t.Errorf("the part with %d ms got %v after %v, want an answer after %v", ms, err, after, landsAfter)
						}
					case !errors.Is(err, context.DeadlineExceeded) || after != ms*time.Millisecond:
						t.Errorf("the part with %d ms got %v after %v, want a deadline exceeded", ms, err, after)
					}
				}()
				synctest.Wait()
			}
			f := l.waiting[0]
			if landsAfter > 0 {
				time.Sleep(landsAfter)
				s.lanes.mu.Lock()
				f.fail(errCrowded)
				f.end()
				s.lanes.mu.Unlock()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if landsAfter == 0 && f.load != 0 {
				t.Errorf("a flight without anybody has a load of %d", f.load)
			}
		})
	}
}

func TestALandingEndsTheAlarm(t *testing.T) {
	s := frozenStore(t)
	p := s.partOf(t, core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")})
	ctx := until{context.Background(), t, time.Now().Add(time.Hour)}
	f, fly := s.board(ctx, patienceOf(ctx), p)
	if fly {
		t.Error("who has a deadline is to fly")
	}
	if !f.await(patienceOf(ctx)) || p.read() != nil || p.usages[0].remaining != 4 {
		t.Errorf("%+v, want 4 remaining", p.usages)
	}
	if f.alarm.timer.Stop() {
		t.Error("a timer is left")
	}
}
