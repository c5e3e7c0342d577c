package redisx

import (
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
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

// turns caches the last turn of each calendar, so that most requests need not compute one.
var turns sync.Map // of core.Calendar to *turn

// turnOf returns the turn of a calendar at now.
func turnOf(c core.Calendar, now int64) *turn {
	minute := algorithm.FloorTo(now, microsPerMinute)
	if t, ok := turns.Load(c); ok && t.(*turn).minute == minute {
		return t.(*turn)
	}
	t := newTurn(c, minute)
	turns.Store(c, t)
	return t
}

// newTurn computes a turn: from the window a day before its minute to the one after the window a day after it, because
// a server whose clock went back keeps the next window.
func newTurn(c core.Calendar, minute int64) *turn {
	t := &turn{minute: minute}
	last := minute + microsPerMinute + microsPerDay
	start, end := c.Window(time.UnixMicro(minute - microsPerDay))
	t.starts = append(t.starts, max(start.UnixMicro(), 0))
	for next := 0; next < 2; {
		if end.UnixMicro() > last {
			next++
		}
		t.starts = append(t.starts, max(end.UnixMicro(), 0))
		_, end = c.Window(end)
	}
	return t
}
