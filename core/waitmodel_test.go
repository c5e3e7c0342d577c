package core_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// TestTurnsWhenTheClockHasSteppedBack gives back each of four turns after the clock has gone back.
func TestTurnsWhenTheClockHasSteppedBack(t *testing.T) {
	one := []core.Claim{{Rule: "r", Key: "k", Limits: core.MustParseLimits("5/s;burst=1"), MaxWait: time.Minute}}
	for canceled := range 4 {
		now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
		store, model := &core.MemoryStore{Now: func() time.Time { return now }}, new(oracle.Model)
		var takes [][]core.Settlement
		for i := range 5 {
			if i == 4 {
				now = now.Add(-time.Second)
				model.Settle(now.UnixMicro(), takes[canceled])
				if err := store.Settle(t.Context(), takes[canceled]); err != nil {
					t.Fatal(err)
				}
			}
			got, err := store.Take(t.Context(), one, nil)
			if want := model.Take(now.UnixMicro(), one); err != nil || got[0] != want[0] {
				t.Fatalf("turn %d is given back, request %d: %v\n got %+v\nwant %+v", canceled, i, err, got, want)
			}
			takes = append(takes, oracle.Charged(one, got))
		}
	}
}

// A refund made while the clock is behind takes effect after the bucket has followed the clock, as in Redis.
func TestRefundAfterTheClockWentBack(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
		store := &core.MemoryStore{Now: func() time.Time { return now }}
		c := core.Claim{Rule: "r", Key: "k", Limits: core.MustParseLimits("5/m"), MaxWait: wait}
		var results []core.Result
		for range 2 {
			results, _ = store.Take(t.Context(), []core.Claim{c}, nil)
		}
		now = now.Add(-time.Hour)
		if err := store.Settle(t.Context(), oracle.Charged([]core.Claim{c}, results)); err != nil {
			t.Fatal(err)
		}
		c.Peek = true
		if results, _ = store.Take(t.Context(), []core.Claim{c}, nil); results[0].Remaining != 1 {
			t.Errorf("max wait %v: %d remain, want the one given back to a bucket that is full", wait, results[0].Remaining)
		}
	}
}
