package memory

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// Records move while others are added.
func TestClaimIsSettledAfterOthersThatAddRecords(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			s := New(10_000, nil)
			l := limitOf(t, a, 5, time.Hour)
			at := s.Instant(decide(s, []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 3}}))
			var asks []query
			for i := range 3000 {
				asks = append(asks, query{Pair: pairOf("rule", strconv.Itoa(i)), Claim: i, Ban: 1_000_000})
			}
			settle(s, append(asks, query{Pair: pairOf("rule", "key"), Limit: l, Claim: 3000, Cost: 3, At: at}))
			if a := take(s, "key", l, 5); a.Retry != 0 {
				t.Errorf("%d: what was given back still counts: %+v", l.Algorithm, a.Usage)
			}
			audit(t, s)
		})
	}
}

// What was charged by the instant of a reset is not given back.
func TestChargeAfterAResetIsGivenBack(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			s := New(100, nil)
			l := limitOf(t, a, 5, time.Hour)
			take(s, "key", l, 5)
			reset(s, pairOf("rule", "key"))
			time.Sleep(time.Microsecond)
			asks := []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 5}}
			asks[0].At = s.Instant(decide(s, asks))
			settle(s, asks)
			if a := take(s, "key", l, 5); a.Retry != 0 {
				t.Errorf("%d: what was given back still counts: %+v", l.Algorithm, a.Usage)
			}
		})
	}
}

// Otherwise denials would last until the clock is back where it was.
func TestDryRunThatDoesNotFitSettlesTheClockAsWell(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := New(100, func() time.Time { return now })
	l := limitOf(t, algorithm.TokenBucket, 10, time.Minute)
	at := s.Instant(decide(s, []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 5}}))
	now = now.Add(-time.Minute)
	settle(s, []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 1, Final: 9, At: at, DryRun: true}})
	now = now.Add(30 * time.Second)
	if a := take(s, "key", l, 5); a.Retry != 0 {
		t.Errorf("denied for %dµs half a minute after the clock went back", a.Retry)
	}
}

// A charge from before a reset is not given back, because other requests may have taken its place.
func TestChargeFromBeforeAResetIsNotGivenBack(t *testing.T) {
	for _, maxKeys := range []int{1, 100} { // a full store does not keep the pair for that
		for _, a := range algorithms {
			synctest.Test(t, func(t *testing.T) {
				s := New(maxKeys, nil)
				l := limitOf(t, a, 5, time.Hour)
				asks := []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 5}}
				asks[0].At = s.Instant(decide(s, asks))
				reset(s, asks[0].Pair)
				if keys, _, _ := s.Stats(); keys != maxKeys/100 {
					t.Errorf("%d: %d of at most %d keys after a reset", a, keys, maxKeys)
				}
				take(s, "key", l, 5)
				settle(s, asks)
				if q := take(s, "key", l, 1); q.Retry == 0 {
					t.Errorf("%d: what was charged before a reset was given back of what was charged since", a)
				}
				audit(t, s)
			})
		}
	}
}

func TestLogThatIsFullIsGrantedNothing(t *testing.T) {
	s := New(100, nil)
	bucket, log := limitOf(t, algorithm.TokenBucket, 9, time.Hour), limitOf(t, algorithm.SlidingLog, 1000, time.Hour)
	p := pairOf("rule", "key")
	take(s, "key", bucket, 9)
	grant := func(n int64) error {
		_, err := s.Do([]Op{{Kind: Grant, Pair: p, Limits: []algorithm.Limit{*bucket}, N: n}, {Kind: Grant, Pair: p, Limits: []algorithm.Limit{*log}, N: n}}, nil)
		return err
	}
	if err := grant(9001); err != ErrFull || take(s, "key", bucket, 1).Retry == 0 {
		t.Errorf("%v, want ErrFull and nothing granted", err)
	}
	for _, row := range []struct {
		n    int64
		want error
	}{{8999, nil}, {2, ErrFull}, {1, nil}, {1, ErrFull}, {-5, nil}, {5, nil}} {
		if err := grant(row.n); err != row.want {
			t.Errorf("%d more: %v, want %v", row.n, err, row.want)
		}
	}
	if q := take(s, "key", log, 10_000); q.Retry != 0 || take(s, "key", log, 1).Retry == 0 {
		t.Errorf("%+v, want exactly 10,000 to fit", q.Answer)
	}
	audit(t, s)
}

// A full store does not forget what a hold will charge, even if nobody asks for its pair again.
func TestSweepChargesWhatHasEnded(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			s := New(1, nil)
			l, second := limitOf(t, a, 1, 24*time.Hour), limitOf(t, algorithm.TokenBucket, 1, time.Second)
			time.Sleep(time.Minute)
			hold(s, "holder", l)
			time.Sleep(67 * time.Second)
			if q := take(s, "other", second, 1); q.own {
				t.Errorf("%d: the pair of a hold that has ended was dropped", a)
			}
			if q := take(s, "holder", l, 1); q.Retry == 0 || !q.own {
				t.Errorf("%d: a hold that nobody has settled was not charged: %+v", a, q.Answer)
			}
			audit(t, s)
		})
	}
}

// More buckets of one key than there is room for, in one call.
func TestSiblingsOfOneCall(t *testing.T) {
	for _, a := range []algorithm.Algorithm{algorithm.TokenBucket, algorithm.SlidingWindow} {
		for _, maxKeys := range []int{1, 100} {
			synctest.Test(t, func(t *testing.T) {
				s := New(maxKeys, nil)
				if maxKeys == 1 {
					take(s, "live", limitOf(t, algorithm.TokenBucket, 1, time.Hour), 1)
				}
				var asks []query
				for i := range 20 {
					l := limitOf(t, a, int64(30+i), time.Hour)
					if a == algorithm.SlidingWindow {
						l.Width = algorithm.CeilDiv(l.Micros, int64(2+i))
						*l, _ = algorithm.Compile(*l)
					}
					asks = append(asks, query{Pair: pairOf("rule", "key"), Limit: l, Claim: i, Cost: 1})
				}
				decide(s, asks)
				for i := range asks {
					if left := asks[i].Usage.Remaining; asks[i].Retry != 0 || left != int64(10+i) {
						t.Errorf("%d: limit %d has %d left, want %d", a, i, left, 10+i)
					}
				}
				audit(t, s)
			})
		}
	}
}

// The ban of a limit is not carried to another tier, and stays while that is used.
func TestBanOfOneTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		l := *limitOf(t, algorithm.TokenBucket, 5, 10*time.Minute)
		l.Ban = time.Hour.Microseconds()
		strict, _ := algorithm.Compile(l)
		lax := limitOf(t, algorithm.TokenBucket, 100, 10*time.Minute)
		take(s, "key", &strict, 5)
		if q := take(s, "key", lax, 1); q.Usage.Remaining != 94 {
			t.Errorf("%+v, want 94 of 100 to remain", q.Usage)
		}
		if q := take(s, "key", &strict, 1); q.Retry != l.Ban {
			t.Errorf("a wait of %dµs, want an hour", q.Retry)
		}
		audit(t, s)
	})
}

// A store with room to spare drops what has been idle for a while. It does not move a hold that is later than that.
func TestSweepLeavesAHoldWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1000, nil)
		l := limitOf(t, algorithm.FixedWindow, 1, 24*time.Hour)
		for i := range 900 {
			if i == 450 {
				hold(s, "key", l)
			}
			take(s, strconv.Itoa(i), limitOf(t, algorithm.TokenBucket, 1, time.Millisecond), 1)
			if i < 450 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(time.Minute - time.Second)
		if _, _, held := s.Stats(); held != 1 {
			t.Errorf("%d are held after 59s, want the hold that lasts a minute", held)
		}
	})
}
