package redisx

import (
	"cmp"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A windowStarts has the starts of the windows of a calendar around one minute of this process's clock. The server's clock,
// which may differ by a day, chooses one: see lua/window.lua.
type windowStarts struct {
	minute int64   // when it began, in microseconds since 1970
	starts []int64 // in microseconds since 1970
}

const (
	microsPerMinute = int64(time.Minute / time.Microsecond)
	microsPerDay    = 24 * 60 * microsPerMinute
)

// cachedStarts has the last starts of each calendar by the kind of its limits, so that most requests need not compute them.
var cachedStarts sync.Map // of uint64 to *windowStarts

// startsOf returns the starts for a limit with a calendar at this process's time. wall may replace its clock.
func startsOf(l *algorithm.Limit, wall *testClock) *windowStarts {
	minute := algorithm.FloorTo(cmp.Or(wall.micros(), time.Now().UnixMicro()), microsPerMinute)
	if s, ok := cachedStarts.Load(l.Kind); ok && s.(*windowStarts).minute == minute {
		return s.(*windowStarts)
	}
	s := newStarts(l.Windows, minute)
	cachedStarts.Store(l.Kind, s)
	return s
}

// newStarts computes starts: from the window a day before the minute to the one after the window a day after it, because
// a server whose clock went back keeps the next window.
func newStarts(window func(at int64) (start, end int64), minute int64) *windowStarts {
	s := &windowStarts{minute: minute}
	last := minute + microsPerMinute + microsPerDay
	for at, next := minute-microsPerDay, 0; next < 2; {
		start, end := window(at)
		s.starts = append(s.starts, max(start, 0))
		if start > last {
			next++
		}
		at = end
	}
	return s
}
