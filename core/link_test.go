package core_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A punctual store promises to heed its deadline.
type punctual struct{ *faulty }

func (punctual) Punctual() {}

func TestAPunctualStoreIsAskedWithoutAGoroutine(t *testing.T) {
	var stack []byte
	s := &faulty{fault: func(context.Context) error {
		stack = debug.Stack()
		return nil
	}}
	for _, row := range []struct {
		store core.Store
		same  bool
	}{{s, false}, {punctual{s}, true}} {
		l := withStore(row.store, []core.Rule{mode("r", core.FailClosed, 1000)})
		if _, err := l.Check(get("/")); err != nil {
			t.Fatal(err)
		}
		if same := bytes.Contains(stack, []byte("core.(*Limiter).Check(")); same != row.same {
			t.Errorf("%T: asked in the goroutine of the request: %v, want %v", row.store, same, row.same)
		}
	}
}

func TestAPunctualStoreMayWatchTheDeadlineAlone(t *testing.T) {
	var timed, limited bool
	var last context.Context
	s := &faulty{fault: func(ctx context.Context) error {
		last = ctx
		_, timed = ctx.(interface{ Timed() })
		deadline, ok := ctx.Deadline()
		limited = ok && time.Until(deadline) > 50*time.Minute && time.Until(deadline) <= time.Hour
		return nil
	}}
	for _, row := range []struct {
		store core.Store
		timed bool
	}{{s, false}, {punctual{s}, true}} {
		l := withStore(row.store, []core.Rule{mode("r", core.FailClosed, 1000)}, core.WithTimeout(time.Hour))
		if _, err := l.Check(get("/")); err != nil || timed != row.timed || !limited {
			t.Errorf("%T: %v; a context that is timed: %v, with the deadline: %v", row.store, err, timed, limited)
		}
		if err := last.Err(); row.timed && !errors.Is(err, context.Canceled) {
			t.Errorf("after the call its context says %v", err)
		}
	}
}

func TestAPunctualStoreFailsLikeOthers(t *testing.T) {
	for why, row := range map[string]struct {
		fault func(context.Context) error
		want  error
	}{
		"refuses": {refuse, core.ErrUnavailable},
		"hangs":   {hang, core.ErrUnavailable},
		"panics":  {func(context.Context) error { panic("ouch") }, core.ErrInvalid},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := withStore(punctual{&faulty{fault: row.fault}}, []core.Rule{mode("r", core.FailClosed, 1000)})
			if _, err := l.Check(get("/")); !errors.Is(err, row.want) {
				t.Errorf("a store that %s: %v, want %v", why, err, row.want)
			}
			h := l.StoreHealth()
			if h.Calls != 0 {
				t.Errorf("a store that %s leaves %d calls under way", why, h.Calls)
			}
			if failed := !errors.Is(row.want, core.ErrInvalid); (h.Err != nil) != failed {
				t.Errorf("a store that %s has failed: %v", why, h.Err)
			}
		})
	}
}
