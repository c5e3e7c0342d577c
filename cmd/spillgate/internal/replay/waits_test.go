package replay

import (
	"fmt"
	"testing"
	"time"
)

// TestReplayReportsWaits checks who would wait, and for how long, also in a dry run. A request that another rule denies
// does not wait.
func TestReplayReportsWaits(t *testing.T) {
	rep := run(t, `rules:
  - {name: webhooks, key: ip, limits: 1/s, max_wait: 2s}
  - {name: trial, key: const(x), limits: 1/s, max_wait: 1s, dry_run: true}
  - {name: all, key: ip, limits: 4/h}
`, Options{}, entries{
		sent(0, "1.1.1.1", "/"), sent(0, "1.1.1.1", "/"), sent(0, "1.1.1.1", "/"), sent(0, "1.1.1.1", "/"), sent(0, "2.2.2.2", "/"), sent(0, "2.2.2.2", "/"),
	})
	w, dry := rep.Rules[0].Waits, rep.Rules[1].Waits
	if got := fmt.Sprintf("%+v", *w); got != "{Waited:3 Mean:1.333333333s Longest:2s Clients:[{Key:ip:1.1.1.1 Waited:2 Longest:2s} {Key:ip:2.2.2.2 Waited:1 Longest:1s}]}" {
		t.Errorf("got %s", got)
	}
	if dry.Waited != 1 || dry.Longest != time.Second || rep.Denied != 1 || rep.Rules[2].Waits != nil {
		t.Errorf("dry run %+v, %d denied", dry, rep.Denied)
	}
}
