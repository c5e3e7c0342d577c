package redistest

import (
	"testing"
	"time"
)

const (
	maxStall    = 300 * time.Millisecond
	maxAttempts = 10
)

// Undisturbed fails the test with the error of f, if any. If the process has stalled meanwhile, calls with a deadline may have failed
// for that reason: then it calls f again, which must begin with new state.
func Undisturbed(t testing.TB, f func() error) {
	t.Helper()
	for left := maxAttempts - 1; ; left-- {
		longest := watch()
		err := f()
		stall := longest()
		if err == nil {
			return
		}
		if stall < maxStall || left == 0 {
			t.Fatalf("%v; the longest stall was %v", err, stall)
		}
		t.Logf("%v; again, after a stall of %v", err, stall)
	}
}

// watch returns a function that returns for how long the process has stalled at most, and may be called once.
func watch() (longest func() time.Duration) {
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		worst := time.Duration(0)
		for last, ended := time.Now(), false; !ended; {
			time.Sleep(10 * time.Millisecond)
			now := time.Now()
			worst, last = max(worst, now.Sub(last)), now
			select {
			case <-stop:
				ended = true
			default:
			}
		}
		result <- worst
	}()
	return func() time.Duration {
		close(stop)
		return <-result
	}
}
