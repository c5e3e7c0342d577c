package core

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestATimedContextEndsAtItsDeadline(t *testing.T) {
	for why, ended := range map[string]func(*timed) bool{
		"its error":  func(c *timed) bool { return errors.Is(c.Err(), context.DeadlineExceeded) },
		"a receiver": func(c *timed) bool { return isClosed(c.Done()) && errors.Is(c.Err(), context.DeadlineExceeded) },
		"a child": func(c *timed) bool {
			child, cancel := context.WithTimeout(c, time.Hour)
			defer cancel()
			synctest.Wait()
			return errors.Is(child.Err(), context.DeadlineExceeded)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &timed{Context: t.Context(), deadline: time.Now().Add(time.Second)}
			if d, ok := c.Deadline(); !ok || !d.Equal(c.deadline) {
				t.Errorf("a deadline of %v, %v", d, ok)
			}
			time.Sleep(time.Second - 1)
			if ended(c) || c.Err() != nil {
				t.Errorf("%s is told too early", why)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if !ended(c) {
				t.Errorf("%s is not told of the deadline", why)
			}
			c.finish(context.Canceled)
			if err := c.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after the deadline, the end of the call makes it %v", err)
			}
		})
	}
}

func TestATimedContextEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early := &timed{Context: t.Context(), deadline: time.Now().Add(time.Second)}
		late := &timed{Context: t.Context(), deadline: early.deadline}
		done := early.Done()
		early.finish(context.Canceled)
		late.finish(context.Canceled)
		if !isClosed(done) || !isClosed(late.Done()) {
			t.Error("Done is open after the call has ended")
		}
		if early.timer.Stop() {
			t.Error("a timer is left")
		}
		time.Sleep(time.Minute)
		for _, c := range []*timed{early, late} {
			if err := c.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want canceled", err)
			}
		}
	})
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
