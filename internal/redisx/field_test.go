package redisx_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

func TestMiniredisAgreesWithTheModelOnRareCases(t *testing.T) {
	for name, turns := range oracle.Rare {
		t.Run(name, func(t *testing.T) {
			s, server := frozen(t)
			now := start
			c := comparison{store: s, advance: func(d time.Duration) {
				now = now.Add(d)
				server.SetTime(now)
			}}
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

// What claims of one request add to one sub-bucket is one entry, though what came before has ceased to count by then.
func TestASubBucketIsOneEntry(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.MustParseLimits("9/m;sliding-window")...)
	take(t, s, c)
	server.SetTime(start.Add(30 * time.Second))
	take(t, s, c)
	server.SetTime(start.Add(70 * time.Second))
	take(t, s, c, c)
	want := words(uint64(start.Add(36*time.Second).UnixMicro()), 1, uint64(start.Add(72*time.Second).UnixMicro()), 2)
	if value := stored(server, "k", c.Limits[0]); value[3*word:] != want {
		t.Errorf("%x, want it to end in %x", value, want)
	}
}

// The widest sub-bucket is half a period, rounded up. A stamp as late as its end is none of the future, even where a limit
// has more sub-buckets now.
func TestTheWidestSubBucketIsNoneOfTheFuture(t *testing.T) {
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
		t.Errorf("all are back after %v, want it to be a period after the end of the sub-bucket", r.ResetAfter)
	}
}

// A request counts for a period and no longer, so one that was admitted a period ago goes with the next.
func TestALogForgetsWhatEndsNow(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerMinute(5).Using(core.SlidingLog))
	take(t, s, c)
	server.SetTime(start.Add(time.Minute))
	take(t, s, c)
	if value := stored(server, "k", c.Limits[0]); len(value) != 5*word {
		t.Errorf("the log is %x, want one entry", value)
	}
}

// See TestAClockThatGoesBackFillsABucketUpToFull in package core.
func TestAClockThatGoesBackFillsABucketUpToFull(t *testing.T) {
	two := claimOf("k", core.Every(3, time.Millisecond).WithBurst(4))
	two.Cost = 2
	for _, back := range []time.Duration{1, 666, 667, 1000} {
		s, server := frozen(t)
		now := start
		c := comparison{store: s, advance: func(d time.Duration) {
			now = now.Add(d)
			server.SetTime(now)
		}}
		steps := []step{{verb: "take", claims: []core.Claim{two}}, {wait: -back * time.Microsecond, verb: "take", claims: []core.Claim{two}}}
		if err := c.play(steps); err != nil {
			t.Errorf("back by %dµs: %v", back, err)
		}
	}
}

func TestAStringLastsAsLongAsAllThatItHolds(t *testing.T) {
	s, server := frozen(t)
	take(t, s, claimOf("k", core.PerHour(5)))
	take(t, s, claimOf("k", core.PerSecond(5)))
	if got, want := server.TTL(pairKey), 12*time.Minute+time.Second; got != want {
		t.Errorf("expires in %v, want %v", got, want)
	}
}

// A string says when it expires for as long as it does not get another expiry: for a second after its states end.
func TestAStringKeepsWhatItSaysOfItsExpiry(t *testing.T) {
	for _, limits := range []string{"100/m", "100/m, 6000/h"} {
		s, server := frozen(t)
		c := claimOf("k", core.MustParseLimits(limits)...)
		take(t, s, c)
		before := stored(server, "k", c.Limits[0])[:word]
		take(t, s, c)
		if stored(server, "k", c.Limits[0])[:word] != before {
			t.Errorf("%s: another expiry within a second", limits)
		}
		server.SetTime(start.Add(2 * time.Second))
		take(t, s, c)
		if got := stored(server, "k", c.Limits[0])[:word]; got == before {
			t.Errorf("%s: no other expiry after two seconds", limits)
		}
	}
}
