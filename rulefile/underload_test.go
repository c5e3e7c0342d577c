package rulefile_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// perUser is a file that limits each user.
func perUser(n int) string {
	return fmt.Sprintf("funcs: [user]\nrules: [{name: api, key: user, limits: %d/h}]\n", n)
}

func requestOf(user string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("U", user)
	return r
}

// A load sends requests of many users, and asks how much one user has left, until it is stopped.
type load struct {
	limiter   *core.Limiter
	stop      atomic.Bool
	decided   atomic.Int64
	undecided atomic.Int64
	wrong     atomic.Int64 // results for that user with neither limit
	wg        sync.WaitGroup
}

func (l *load) begin(workers int, one string, left ...int) {
	for n := range workers {
		l.wg.Go(func() {
			for i := 0; !l.stop.Load(); i++ {
				time.Sleep(time.Millisecond)
				d, err := l.limiter.Check(requestOf(fmt.Sprintf("%d-%d", n, i%500)))
				l.note(d, err)
				d, err = l.limiter.Peek(requestOf(one))
				if l.note(d, err) && d.Results[0].Remaining != left[0] && d.Results[0].Remaining != left[1] {
					l.wrong.Add(1)
				}
			}
		})
	}
}

func (l *load) note(d core.Decision, err error) bool {
	if err != nil || len(d.Results) != 1 {
		l.undecided.Add(1)
		return false
	}
	l.decided.Add(1)
	return true
}

func TestWatchKeepsWhatWasUsedUnderLoad(t *testing.T) {
	watch(t, func(w *watched) {
		w.write(w.path, perUser(10))
		w.wait(3 * time.Second)
		for range 10 {
			if d, err := w.limiter.Check(requestOf("ann")); err != nil || !d.Allowed {
				t.Fatalf("got %+v, %v", d, err)
			}
		}
		l := &load{limiter: w.limiter}
		l.begin(8, "ann", 0, 90)
		time.Sleep(100 * time.Millisecond)
		w.write(w.path, perUser(100))
		time.Sleep(3 * time.Second)
		l.stop.Store(true)
		l.wg.Wait()
		synctest.Wait()
		if d, err := w.limiter.Peek(requestOf("ann")); err != nil || d.Results[0].Remaining != 90 || d.Results[0].Limit.Rate != 100 {
			t.Errorf("got %+v, %v; want 90 of 100 left", d, err)
		}
		if l.undecided.Load() > 0 || l.wrong.Load() > 0 || l.decided.Load() < 10_000 {
			t.Errorf("%d decided, %d undecided, %d with another limit", l.decided.Load(), l.undecided.Load(), l.wrong.Load())
		}
	})
}
