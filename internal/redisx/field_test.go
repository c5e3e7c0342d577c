package redisx_test

import (
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

func TestMiniredisAgreesWithTheModelOnRareCases(t *testing.T) {
	testpass.Thorough(t)
	for name, turns := range oracle.Rare {
		t.Run(name, func(t *testing.T) {
			c := compare(frozen(t))
			var steps []step
			for _, turn := range turns {
				next := step{wait: turn.After, verb: "take", claims: turn.Claims, line: turn.Line}
				if turn.Refund {
					next.verb = "refund"
				}
				steps = append(steps, next)
			}
			if err := c.play(steps); err != nil {
				t.Error(err)
			}
		})
	}
}

// The claims of one request in one sub-bucket make one entry, also when the entries before it have expired.
func TestClaimsOfOneRequestShareASubBucket(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.MustParseLimits("9/m;sliding-window")...)
	take(t, s, c)
	server.SetTime(start.Add(30 * time.Second))
	take(t, s, c)
	server.SetTime(start.Add(70 * time.Second))
	take(t, s, c, c)
	state := stored(server.HGet(pairKey, "s"), c.Limits[0])
	if oldest, newest, count := state[2], state[3], state[4]; oldest != uint64(start.Add(36*time.Second).UnixMicro()) ||
		newest != uint64(start.Add(72*time.Second).UnixMicro()) || count != 2 {
		t.Errorf("%v, want an oldest entry of 36 s and a newest of 72 s with 2 requests", state)
	}
	if recent := state[8:11]; !slices.Equal(recent, []uint64{1, uint64(start.Add(36 * time.Second).UnixMicro()), 1}) {
		t.Errorf("the recent entries are %d, want the one of 36 s", recent)
	}
}

// The record has room for the newest entry and eight recent ones. Older ones are in a field, until few are left.
func TestOnlyOlderEntriesHaveAField(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerMinute(1000).Using(core.SlidingLog))
	field := func() int { return len(server.HGet(pairKey, fieldOf(c.Limits[0]))) / 16 }
	for i, want := range []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 18} {
		server.SetTime(start.Add(time.Duration(i) * time.Second))
		if take(t, s, c); field() != want {
			t.Fatalf("after %d requests a field has %d entries, want %d", i+1, field(), want)
		}
	}
	for _, after := range []struct {
		seconds time.Duration
		entries int
		used    uint64
	}{{69, 9, 10}, {70, 9, 10}, {73, 0, 8}, {77, 0, 5}} {
		server.SetTime(start.Add(after.seconds * time.Second))
		take(t, s, c)
		if state := stored(server.HGet(pairKey, "s"), c.Limits[0]); field() != after.entries || state[0] != after.used {
			t.Errorf("after %d s a field has %d entries of %d requests, want %d of %d", after.seconds, field(), state[0], after.entries, after.used)
		}
	}
}

// The widest sub-bucket is half a period, rounded up. A stored instant as late as its end is not taken for one of the
// future, even if the limit has more sub-buckets now.
func TestEndOfTheWidestSubBucketIsNotInTheFuture(t *testing.T) {
	const period, widest = 7_000_001, 3_500_001 // microseconds
	two := core.Every(9, period*time.Microsecond).Using(core.SlidingWindow)
	ten := two
	two.Buckets = 2
	s, server := frozen(t)
	now := start.Add(time.Duration(widest-start.UnixMicro()%widest) * time.Microsecond)
	server.SetTime(now)
	take(t, s, claimOf("k", two))
	earlier := claimOf("k", ten)
	earlier.Peek = true
	take(t, s, earlier)
	server.SetTime(now.Add(3 * time.Second))
	peek := claimOf("k", two)
	peek.Peek = true
	if r := take(t, s, peek)[0]; r.ResetAfter != (widest+period)*time.Microsecond-3*time.Second {
		t.Errorf("all requests are available again after %v, want one period after the end of the sub-bucket", r.ResetAfter)
	}
}

// An entry counts for exactly one period, so the next request after a period removes it.
func TestLogDropsEntriesThatEndNow(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerMinute(5).Using(core.SlidingLog))
	take(t, s, c)
	server.SetTime(start.Add(time.Minute))
	take(t, s, c)
	state := stored(server.HGet(pairKey, "s"), c.Limits[0])
	if older := server.HGet(pairKey, fieldOf(c.Limits[0])); state[0] != 1 || state[2] != state[3] || older != "" {
		t.Errorf("the log is %v and %x, want one entry", state, older)
	}
}

// See TestClockThatGoesBackFillsABucketUpToFull in package core.
func TestClockThatGoesBackFillsABucketUpToFull(t *testing.T) {
	two := claimOf("k", core.Every(3, time.Millisecond).WithBurst(4))
	two.Cost = 2
	for _, back := range []time.Duration{1, 666, 667, 1000} {
		c := compare(frozen(t))
		steps := []step{{verb: "take", claims: []core.Claim{two}}, {wait: -back * time.Microsecond, verb: "take", claims: []core.Claim{two}}}
		if err := c.play(steps); err != nil {
			t.Errorf("back by %dµs: %v", back, err)
		}
	}
}
