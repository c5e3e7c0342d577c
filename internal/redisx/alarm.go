package redisx

import (
	"sync"
	"time"
)

// An alarm wakes all who wait for a flight at the first deadline of one of them. They have much the same, so one timer does
// for all: with one for each, 256 callers got four fifths as many decisions. The zero alarm is not set: nobody waits for it.
type alarm struct {
	at    time.Time
	timer *time.Timer
	once  sync.Once
	rung  chan struct{}
}

// set has a rung by at. Calls must not overlap.
func (a *alarm) set(at time.Time) {
	switch {
	case a.timer == nil:
		a.rung = make(chan struct{})
		a.at, a.timer = at, time.AfterFunc(time.Until(at), a.ring)
	case at.Before(a.at):
		a.at = at
		a.timer.Reset(time.Until(at))
	}
}

// ring wakes everybody.
func (a *alarm) ring() {
	a.once.Do(func() { close(a.rung) })
}

// end wakes everybody and ends the use of a.
func (a *alarm) end() {
	if a.timer != nil {
		a.timer.Stop()
		a.ring()
	}
}
