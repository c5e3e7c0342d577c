package rulefile_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// manyUsers is a file in which 10,000 users have their own limits.
func manyUsers(n int) string {
	var b strings.Builder
	b.WriteString("funcs: [user]\nrules:\n  - name: api\n    key: user\n    limits: 5/h\n    overrides:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "      \"user:U%d\": %d/h\n", i, n)
	}
	return b.String()
}

func TestOverridesAreSwappedUnderLoad(t *testing.T) {
	watch(t, func(w *watched) {
		w.write(w.path, manyUsers(10))
		w.wait(3 * time.Second)
		for range 10 {
			if d, err := w.limiter.Check(requestOf("U77")); err != nil || !d.Allowed {
				t.Fatalf("got %+v, %v", d, err)
			}
		}
		l := &load{limiter: w.limiter}
		l.begin(8, "U77", 0, 90)
		time.Sleep(100 * time.Millisecond)
		w.write(w.path, manyUsers(100))
		time.Sleep(3 * time.Second)
		l.stop.Store(true)
		l.wg.Wait()
		synctest.Wait()
		if d, err := w.limiter.Peek(requestOf("U77")); err != nil || d.Results[0].Remaining != 90 || d.Results[0].Limit.Rate != 100 {
			t.Errorf("got %+v, %v; want 90 of 100 left", d, err)
		}
		if d, err := w.limiter.Peek(requestOf("nobody")); err != nil || d.Results[0].Limit.Rate != 5 {
			t.Errorf("got %+v, %v; want the limits of the rule", d, err)
		}
		if l.undecided.Load() > 0 || l.wrong.Load() > 0 {
			t.Errorf("%d decided, %d undecided, %d with another limit", l.decided.Load(), l.undecided.Load(), l.wrong.Load())
		}
	})
}
