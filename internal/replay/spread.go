package replay

import (
	"time"

	"github.com/spillgate/spillgate/internal/accesslog"
)

// A spreader decides the same entries as a player, but spreads those of one second evenly over it. Logs often tell whole seconds
// only; then the truth lies between all requests of a second at once, which refuses most, and this.
type spreader struct {
	player  *player
	whole   bool // all times so far are whole seconds
	second  time.Time
	entries []accesslog.Entry // of that second
	refused int
	batches chan []accesslog.Entry
	done    chan struct{}
}

func newSpreader(p *player) *spreader {
	s := &spreader{player: p, whole: true, batches: make(chan []accesslog.Entry, 64), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for batch := range s.batches {
			s.decide(batch)
		}
	}()
	return s
}

// add hands entries on, a second at a time.
func (s *spreader) add(e *accesslog.Entry, at time.Time) {
	if s.whole = s.whole && e.Seconds; !s.whole {
		s.entries = nil
		return
	}
	if !at.Equal(s.second) && len(s.entries) > 0 {
		s.batches <- s.entries
		s.entries = nil
	}
	s.second = at
	own := *e
	own.Header, own.At = cloneHeader(e.Header), at
	s.entries = append(s.entries, own)
}

func (s *spreader) decide(batch []accesslog.Entry) {
	for i := range batch {
		s.player.decide(&batch[i], batch[i].At.Add(time.Second*time.Duration(i)/time.Duration(len(batch))))
		if s.player.refused {
			s.refused++
		}
	}
}

// finish returns how many requests were refused, and whether that is worth saying.
func (s *spreader) finish() (refused int, ok bool) {
	if s.whole && len(s.entries) > 0 {
		s.batches <- s.entries
	}
	close(s.batches)
	<-s.done
	return s.refused, s.whole
}
