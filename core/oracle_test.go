package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

// longest bounds a timeline, so that the clock of the bubble, in nanoseconds, does not run out.
const longest = 250 * 365 * 24 * time.Hour

// newReplaySubject returns a store whose clock the test sets.
func newReplaySubject() oracle.Subject {
	now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	return oracle.Subject{
		Store: &core.MemoryStore{Now: func() time.Time { return now }}, Now: func() time.Time { return now },
		Advance: func(d time.Duration) { now = now.Add(d) },
	}
}

func TestRandomTimelines(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRandom(t, newReplaySubject, oracle.Options{Back: true}, testpass.Rounds(1500))
}

func TestRareTimelines(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRare(t, newReplaySubject)
}

// A store without Now reads the monotonic clock.
func TestRandomTimelinesOnTheMonotonicClock(t *testing.T) {
	testpass.Thorough(t)
	for seed := range uint64(testpass.Rounds(300)) {
		synctest.Test(t, func(t *testing.T) {
			end := time.Now().Add(longest)
			oracle.Compare(t, func() oracle.Subject {
				return oracle.Subject{Store: new(core.MemoryStore), Now: time.Now, Advance: func(d time.Duration) {
					if d < time.Until(end) {
						time.Sleep(d)
					}
				}}
			}, oracle.Random(seed, oracle.Options{}))
		})
	}
}
