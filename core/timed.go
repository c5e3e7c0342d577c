package core

import (
	"context"
	"sync"
	"time"
)

// A timed is a context that ends at its deadline, or when finish is called. Only Done takes a timer.
type timed struct {
	context.Context // that never ends
	deadline        time.Time

	mu    sync.Mutex
	err   error         // once it has ended
	done  chan struct{} // nil until somebody asks for it
	timer *time.Timer   // that comes with done
}

// Timed tells a store what Store says of it.
func (t *timed) Timed() {}

// Deadline implements context.Context.
func (t *timed) Deadline() (time.Time, bool) { return t.deadline, true }

// Done implements context.Context.
func (t *timed) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil {
		t.done = make(chan struct{})
		if t.err != nil {
			close(t.done)
		} else {
			t.timer = time.AfterFunc(time.Until(t.deadline), func() { t.finish(context.DeadlineExceeded) })
		}
	}
	return t.done
}

// Err implements context.Context.
func (t *timed) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !time.Now().Before(t.deadline) {
		t.end(context.DeadlineExceeded)
	}
	return t.err
}

// finish ends t, if it has not ended.
func (t *timed) finish(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(err)
}

func (t *timed) end(err error) {
	if t.err != nil {
		return
	}
	t.err = err
	if t.done != nil {
		t.timer.Stop()
		close(t.done)
	}
}
