package core_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"testing"
	"testing/synctest"

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
			if h := l.StoreHealth(); h.Calls != 0 {
				t.Errorf("a store that %s leaves %d calls under way", why, h.Calls)
			}
		})
	}
}
