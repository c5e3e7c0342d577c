package algorithm

import (
	"testing"
)

// checkReport compares what b reports with what happens to b later.
func checkReport(t *testing.T, b Bucket, l *Limit, now int64) {
	t.Helper()
	u := b.Report(l, l.Rate, now)
	at := func(wait int64) Bucket { return b.Drain(l, l.Rate, now+wait) }
	remaining := func(wait int64) int64 { return at(wait).Report(l, l.Rate, now+wait).Remaining }
	if free := max(0, l.Full-b.Level); u.Remaining != free/l.Period {
		t.Errorf("tick %d: %d remain of %+v", l.Unit, u.Remaining, b)
	}
	if b.Level == 0 {
		if u.Refill != 0 || u.Reset != 0 {
			t.Errorf("tick %d: an empty bucket reports %+v", l.Unit, u)
		}
		return
	}
	overfilled := b.Level > l.Full
	if before, after := remaining(u.Refill-1), remaining(u.Refill); before != u.Remaining || after <= u.Remaining && !overfilled {
		t.Errorf("tick %d: %d remain, then %d and %d around %dµs later", l.Unit, u.Remaining, before, after, u.Refill)
	}
	if at(u.Reset-1).Level == 0 || at(u.Reset).Level != 0 {
		t.Errorf("tick %d: %+v is not empty first after %dµs", l.Unit, b, u.Reset)
	}
}
