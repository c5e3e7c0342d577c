package redisx

import (
	"cmp"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A turn has the starts of the windows of a calendar around one minute of this process's clock. The server's clock,
// which may differ by a day, chooses one: see lua/fixedwindow.lua.
type turn struct {
	minute int64   // when it began, in microseconds since 1970
	starts []int64 // in microseconds since 1970
}

const (
	microsPerMinute = int64(time.Minute / time.Microsecond)
	microsPerDay    = 24 * 60 * microsPerMinute
)

// turns caches the last turn of each calendar by the kind of its limits, so that most requests need not compute one.
var turns sync.Map // of uint64 to *turn

// turnOf returns the turn of a limit with a calendar at this process's time. wall may replace its clock.
func turnOf(l *algorithm.Limit, wall *testClock) *turn {
	minute := algorithm.FloorTo(cmp.Or(wall.micros(), time.Now().UnixMicro()), microsPerMinute)
	if t, ok := turns.Load(l.Kind); ok && t.(*turn).minute == minute {
		return t.(*turn)
	}
	t := newTurn(l.Windows, minute)
	turns.Store(l.Kind, t)
	return t
}

// newTurn computes a turn: from the window a day before its minute to the one after the window a day after it, because
// a server whose clock went back keeps the next window.
func newTurn(window func(at int64) (start, end int64), minute int64) *turn {
	t := &turn{minute: minute}
	last := minute + microsPerMinute + microsPerDay
	start, end := window(minute - microsPerDay)
	t.starts = append(t.starts, max(start, 0))
	for next := 0; next < 2; {
		if end > last {
			next++
		}
		t.starts = append(t.starts, max(end, 0))
		_, end = window(end)
	}
	return t
}
