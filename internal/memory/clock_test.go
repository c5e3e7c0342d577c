package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func (c *clock) at() int64 {
	now, _ := c.read()
	return now
}

// offset returns how far the wall clock is ahead of instants.
func (c *clock) offset() int64 {
	_, offset := c.read()
	return offset
}

func TestInstantsFollowTheMonotonicClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.begin(nil)
		begin := c.at()
		expect.Equal(t, begin, time.Now().UnixMicro(), "begins at")
		time.Sleep(time.Hour)
		expect.Equal(t, c.at()-begin, time.Hour.Microseconds(), "µs have passed (an hour)")
		if at := c.Time(c.at()); !at.Equal(time.Now()) || c.Instant(at) != c.at() {
			t.Errorf("it is %v, want %v; its instant is %d, want %d", at, time.Now(), c.Instant(at), c.at())
		}
	})
}

// A bubble has no monotonic clock, so this test uses the machine's.
func TestInstantIsFoundAgainAfterTheWallClockWasSet(t *testing.T) {
	for _, d := range []time.Duration{time.Hour, -time.Hour, 2 * time.Millisecond} {
		var c clock
		c.begin(nil)
		c.epoch -= d.Microseconds() // as if the wall clock had been set by d since
		now := c.at()
		before, soon := c.Time(now), c.Time(now+maxDelay/2)
		c.check(c.at(), time.Now())
		off := c.offset() - d.Microseconds()
		expect.True(t, off >= -1000 && off <= 1000, "set by %v: the wall clock is ahead by %dµs", d, c.offset())
		got := c.Instant(before)
		expect.Equal(t, got, now, "set by %v: an instant from before is off by %dµs", d, got-now)
		got = c.Instant(soon)
		expect.Equal(t, got, now+maxDelay/2, "clock set by %v: an instant soon after now is off by %dµs", d, got-now-maxDelay/2)
		now = c.at()
		at := c.Time(now)
		got = c.Instant(at)
		expect.Equal(t, got, now, "set by %v: an instant is off by %dµs", d, got-now)
		expect.True(t, at.UnixMicro() == now+c.offset() && at.Nanosecond()%1000 == 0,
			"set by %v: %v is not %dµs after the instant %d", d, at, c.offset(), now)
		if off := time.Since(at.Round(0)); off < -2*time.Millisecond || off > time.Minute {
			t.Errorf("clock set by %v: the instant is %v from now by the wall clock", d, off)
		}
	}
}

func TestWallClockIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.begin(nil)
		c.epoch -= 3_600_000_000
		c.checked.Store(c.epoch)
		c.at()
		expect.Equal(t, c.offset(), 0, "the wall clock is read again at once")
		time.Sleep(recheck*time.Microsecond + time.Microsecond)
		c.at()
		expect.Equal(t, c.offset(), 3_600_000_000, "the wall clock is ahead by µs (an hour)")
	})
}

func TestTimeWithoutMonotonicReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.begin(nil)
		now := c.at()
		got := c.Instant(c.Time(now).Round(0))
		expect.Equal(t, got, now, "the instant is off by %d", got-now)
		c.wall.Store(&wall{at: now, time: time.Now(), offset: 5e6})
		got = c.Instant(time.UnixMicro(now + 5e6))
		expect.Equal(t, got, now, "after the wall clock was set: the instant is off by %d", got-now)
	})
}

func TestTimeWithoutMonotonicReadingAfterTheWallClockWasSetTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.begin(nil)
		c.epoch -= 3_600_000_000
		c.wall.Store(&wall{at: c.epoch, time: c.start, offset: 5e6, first: 1})
		c.check(c.at(), time.Now())
		got := c.Instant(time.UnixMicro(c.epoch))
		expect.Equal(t, got, c.epoch-3_600_000_000, "the instant is off by %d", got-c.epoch+3_600_000_000)
	})
}

// A clock set with Now may return any time.
func TestReplacedClockMayGoBack(t *testing.T) {
	now := time.UnixMicro(5_000_000)
	var c clock
	c.begin(func() time.Time { return now })
	now = time.UnixMicro(1_000_000)
	got := c.at()
	expect.Equal(t, c.Time(got), now, "time of the instant")
	expect.True(t, got == 1_000_000 && c.Instant(now) == got, "it is %d, want 1000000", got)
}

// setOffset makes the wall clock of s be ahead by d from now on.
func setOffset(s *Store, d time.Duration) {
	now := s.at()
	s.wall.Store(&wall{at: now, time: time.Now(), offset: d.Microseconds()})
}

func TestWallClockThatIsSet(t *testing.T) {
	for _, step := range []time.Duration{time.Second, 25 * time.Second, 90 * time.Second, 1000 * time.Hour, -25 * time.Second, -1000 * time.Hour} {
		for _, a := range algorithms {
			synctest.Test(t, func(t *testing.T) {
				l := limitOf(t, a, 5, time.Minute)
				s := New(100, nil)
				time.Sleep(20 * time.Second)
				take(s, "key", l, 5)
				time.Sleep(time.Millisecond)
				setOffset(s, step)
				r := take(s, "key", l, 1)
				expect.NotEqual(t, r.Retry, 0, "algorithm %d, clock set by %v: admitted although nothing was left", a, step)
				expect.AtMost(t, time.Duration(r.Retry)*time.Microsecond, 66*time.Second, "algorithm %d, set by %v: denied for", a, step)
				if start := (s.at() + r.Retry + step.Microseconds()) % l.Micros; a == algorithm.FixedWindow && start != 0 {
					t.Errorf("set by %v: the window starts %dµs after the minute", step, start)
				}
				time.Sleep(time.Duration(r.Retry) * time.Microsecond)
				r = take(s, "key", l, 1)
				expect.Equal(t, r.Retry, 0, "algorithm %d, set by %v: denied after the wait, for µs", a, step)
			})
		}
	}
}

// The two clocks are not read at the same instant, so a difference of a millisecond does not mean that the wall clock was set.
func TestSmallStepsOfTheWallClockAreIgnored(t *testing.T) {
	for _, before := range []int64{0, 5_000_000} {
		for by, set := range map[int64]bool{0: false, 1000: false, -1000: false, 1001: true, -1001: true, 1_000_000: true} {
			synctest.Test(t, func(t *testing.T) {
				var c clock
				c.begin(nil)
				expect.Equal(t, c.checked.Load(), c.epoch, "the wall clock was not read at the beginning")
				var w *wall
				if before != 0 {
					w = &wall{at: c.epoch, time: c.start, offset: before}
					c.wall.Store(w)
				}
				c.epoch -= before + by
				c.check(c.at(), time.Now())
				expect.Equal(t, c.wall.Load() != w, set, "ahead by %d, then by %d more: %+v", before, by, c.wall.Load())
			})
		}
	}
}

// Times are whole microseconds, as instants are.
func TestTimesAfterTheWallClockWasSetAreWholeMicroseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(123 * time.Nanosecond)
		var c clock
		c.begin(nil)
		c.epoch -= 3_600_000_000
		c.check(c.at(), time.Now())
		if at := c.Time(c.at()); c.wall.Load() == nil || at.Nanosecond()%1000 != 0 || c.start.Nanosecond()%1000 != 0 {
			t.Errorf("set: %v, began at %v, and it is %v", c.wall.Load() != nil, c.start, at)
		}
	})
}

func TestTheFirstTimeAfterTheWallClockWasSet(t *testing.T) {
	var c clock
	c.begin(nil)
	c.wall.Store(&wall{offset: 5, first: 1000})
	for micros, want := range map[int64]int64{999: 999, 1000: 995, 1001: 996} {
		expect.Equal(t, c.Instant(time.UnixMicro(micros)), want, "%d is the instant", micros)
	}
}

// Requests that are denied after the clock has gone back charge nothing, but their wait passes.
func TestDenialAfterTheClockHasGoneBackEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := New(10, func() time.Time { return now })
	l := limitOf(t, algorithm.TokenBucket, 10, time.Minute)
	take(s, "k", l, 10)
	now = now.Add(-time.Hour)
	q := take(s, "k", l, 1)
	must.True(t, q.Retry > 0 && q.Retry <= time.Minute.Microseconds(),
		"got a wait of %d µs, want one of at most a minute", q.Retry)
	now = now.Add(time.Duration(q.Retry) * time.Microsecond)
	expect.Equal(t, take(s, "k", l, 1).Retry, 0, "denied again after the wait")
}
