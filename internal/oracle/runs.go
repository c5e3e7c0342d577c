package oracle

import (
	"testing"
	"time"
)

// CheckLeases runs the schedules of many seeds of a stream, for about a second. It fails the test if one of them breaks
// the contract of leases, or if all of them together exercised too little of it.
func CheckLeases(t *testing.T, stream uint64, open func(length int64) Holder) {
	t.Helper()
	var all Summary
	begun, n := time.Now(), uint64(0)
	for ; n < 30 || n < 1000 && time.Since(begun) < time.Second; n++ {
		s, err := RunLeases(RandomSchedule(stream, n), open)
		if err != nil {
			t.Fatalf("seed %d: %v", n, err)
		}
		all.Add(s)
	}
	if all.Leased < 10 || all.Asked < 10 || all.Denied < 10 || all.Returned < 10 || all.Crashes == 0 || all.Lost == 0 || all.Refunds == 0 {
		t.Errorf("%d schedules have exercised too little: %+v", n, all)
	}
}

// FuzzLeases looks for a schedule that breaks the contract of leases.
func FuzzLeases(f *testing.F, stream uint64, open func(length int64) Holder) {
	for seed := range uint64(8) {
		f.Add(RandomSchedule(stream, seed))
	}
	f.Fuzz(func(t *testing.T, schedule []byte) {
		if len(schedule) > 300 {
			t.Skip("more steps take longer and show no more")
		}
		if _, err := RunLeases(schedule, open); err != nil {
			t.Error(err)
		}
	})
}
