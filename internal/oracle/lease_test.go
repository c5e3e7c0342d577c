package oracle_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/oracle"
)

func newLease(length int64) oracle.Holder { return oracle.NewLease(length) }

// randomSchedule returns the schedule of a seed.
func randomSchedule(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 18))
	text := make([]byte, 8+r.IntN(400))
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	return text
}

// TestLeasesKeepTheirBounds runs schedules of many seeds, for about a second.
func TestLeasesKeepTheirBounds(t *testing.T) {
	var all oracle.Summary
	begun, n := time.Now(), uint64(0)
	for ; n < 30 || n < 1000 && time.Since(begun) < time.Second; n++ {
		s, err := oracle.RunLeases(randomSchedule(n), newLease)
		if err != nil {
			t.Fatalf("seed %d: %v", n, err)
		}
		all.Add(s)
	}
	if all.Leased < 10 || all.Asked < 10 || all.Denied < 10 || all.Returned < 10 || all.Crashes == 0 || all.Lost == 0 || all.Refunds == 0 {
		t.Errorf("%d schedules have shown little: %+v", n, all)
	}
}

// FuzzLeases looks for a schedule in which leases do what they must not.
func FuzzLeases(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomSchedule(seed))
	}
	f.Fuzz(func(t *testing.T, schedule []byte) {
		if len(schedule) > 300 {
			t.Skip("what takes more steps takes long and shows no more")
		}
		if _, err := oracle.RunLeases(schedule, newLease); err != nil {
			t.Error(err)
		}
	})
}
