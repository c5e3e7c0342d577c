package core_test

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestRequestDeniedByAtOnceChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("100/m;fixed-window, 1 at once", nil)
		a, _ := l.Guard(context.Background(), get("/"), nil)
		if handle(l, 0, 200) {
			t.Error("a second request ran beside the first")
		}
		a.End()
		if !handle(l, 0, 200) {
			t.Error("a request was denied after the first had ended")
		}
		d, err := l.Peek(get("/"))
		if err != nil || d.Results[0].Remaining != 98 || !d.Allowed {
			t.Errorf("got %+v, %v; want 2 of 100 used", d, err)
		}
	})
}
