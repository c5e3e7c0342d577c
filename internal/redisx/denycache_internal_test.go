package redisx

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// The server may deny before a reset, and the store may read the reply after it.
func TestDenialFromBeforeAResetIsNotRemembered(t *testing.T) {
	s := New(nil, Options{DenyCache: 10})
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	now := time.Now()
	results := []core.Result{{RetryAfter: 2 * maxDenial}}
	find := func() *denial { d, _ := s.denials.find(claims); return d }
	slots, changes := s.denials.slotsOf(claims, nil)
	s.denials.forget([]core.Pair{{Key: "k"}})
	s.denials.remember(claims, slots, results, now, changes)
	_, known := s.Denied(&claims[0], nil)
	expect.True(t, find() == nil && !known, "a denial from before the reset is remembered, for an outage: %t", known)
	_, changes = s.denials.slotsOf(claims, nil)
	s.denials.remember(claims, slots, results, now, changes)
	expect.NotEqual(t, find(), nil, "a denial from after the reset is not remembered")
	results[0].RetryAfter = 0
	expect.Equal(t, find().results[0].RetryAfter, 2*maxDenial, "a remembered denial changed with the results of the caller")
	claims[0].Limits[0].Rate = 6
	expect.Equal(t, find(), nil, "a remembered denial changed with the limits of the caller")
}

func TestDenyCacheKeepsNoLongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where denials do not end meanwhile
		s := New(nil, Options{DenyCache: 1000})
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 300 {
			claims := []core.Claim{{Key: strings.Repeat(string(rune('a'+i%26)), 900_000) + strconv.Itoa(i), Limits: core.MustParseLimits("5/m")}}
			slots, _ := s.denials.slotsOf(claims, nil)
			s.denials.remember(claims, slots, []core.Result{{RetryAfter: 2 * maxDenial}}, time.Now().Add(-time.Millisecond), 0)
			r, ok := s.TakeLocal(claims, nil)
			must.True(t, ok && r[0].RetryAfter == 2*maxDenial, "a denial is not remembered, or its wait is too short: %+v", r)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		expect.AtMost(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), 2_000_000, "300 denials of long keys take bytes")
		runtime.KeepAlive(s)
	})
}

func TestDenyCacheDropsExpiredDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, Options{DenyCache: 100})
		add := func(key string) {
			claims := []core.Claim{{Key: key, Limits: core.MustParseLimits("5/m")}}
			slots, _ := s.denials.slotsOf(claims, nil)
			s.denials.remember(claims, slots, []core.Result{{RetryAfter: 2 * maxDenial}}, time.Now(), 0)
		}
		kept := func() (n int) {
			for i := range s.denials.slots {
				if s.denials.slots[i].denial.Load() != nil {
					n++
				}
			}
			return n
		}
		for i := range 1000 {
			add(strconv.Itoa(i))
		}
		expect.AtLeast(t, kept(), 90, "denials remembered (nearly 100)")
		time.Sleep(maxDenial)
		for range 60 {
			add("k")
		}
		expect.AtLeast(t, kept(), 90, "denials remembered for an outage (nearly 100)")
		time.Sleep(maxDenial)
		for range 60 {
			add("k")
		}
		expect.AtMost(t, kept(), 5, "denials kept after they have ended")
	})
}

// Another process may return leased requests, so a denial is remembered for at most one Lease.
func TestDenialIsRememberedForALeaseAtMost(t *testing.T) {
	client := frozenStore(t).decider.server.client
	for lease, want := range map[time.Duration]time.Duration{0: maxDenial, 50 * time.Millisecond: 50 * time.Millisecond, 5 * time.Second: maxDenial} {
		s := New(client, Options{Prefix: lease.String(), DenyCache: 1 << 16}) // a call of 50ms or more may sweep its own denial, if slots are few
		claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("1/d"), Lease: lease}}
		for range 2 {
			must.Get(s.Take(context.Background(), claims, nil))(t)
		}
		d := s.denials.slotOf("", "k").denial.Load()
		expect.True(t, d != nil && d.lasts == want, "lease %v: %+v, want a denial that lasts %v", lease, d, want)
	}
}

// During an outage, a remembered denial also denies requests of other costs, as long as a cost of 1 does not fit.
func TestKnownDenial(t *testing.T) {
	hour := core.MustParseLimits("10/h")
	two := core.MustParseLimits("10/h, 5/m")
	usedUp := core.Result{Limit: hour[0], RetryAfter: 30 * time.Minute, RefillAfter: 6 * time.Minute, ResetAfter: time.Hour}
	some := core.Result{Limit: hour[0], Remaining: 3, RetryAfter: 30 * time.Minute, RefillAfter: 6 * time.Minute, ResetAfter: time.Hour}
	admits := core.Result{Limit: two[1], Allowed: true, Remaining: 5}
	never := core.Result{Limit: hour[0], RetryAfter: core.Never}
	claim := func(cost int, limits []core.Limit) core.Claim {
		return core.Claim{Rule: "r", Key: "k", Cost: cost, Limits: limits}
	}
	waits, other := claim(1, hour), claim(1, hour)
	waits.MaxWait, other.Key = time.Second, "other"
	short, long := claim(5, hour), claim(5, hour)
	short.MaxWait, long.MaxWait = 10*time.Minute, 20*time.Minute
	for _, row := range []struct {
		why     string
		asked   core.Claim
		results []core.Result
		later   time.Duration
		claim   core.Claim
		denied  bool
		retry   time.Duration
	}{
		{"the same cost", claim(5, hour), []core.Result{usedUp}, 5 * time.Minute, claim(5, hour), true, 25 * time.Minute},
		{"the same cost, when less would fit", claim(5, hour), []core.Result{usedUp}, 20 * time.Minute, claim(5, hour), true, 10 * time.Minute},
		{"a lower cost", claim(5, hour), []core.Result{usedUp}, 5 * time.Minute, claim(1, hour), true, 55 * time.Minute},
		{"a lower cost, when it may fit", claim(5, hour), []core.Result{usedUp}, 6 * time.Minute, claim(1, hour), false, 0},
		{"a lower cost, and some remain", claim(5, hour), []core.Result{some}, 0, claim(1, hour), false, 0},
		{"a higher cost, and some remain", claim(5, hour), []core.Result{some}, 0, claim(6, hour), true, time.Hour},
		{"the whole capacity", claim(5, hour), []core.Result{usedUp}, 0, claim(10, hour), true, time.Hour},
		{"a cost above the capacity", claim(5, hour), []core.Result{usedUp}, 0, claim(11, hour), true, core.Never},
		{"what never fits", claim(11, hour), []core.Result{never}, 24 * time.Hour, claim(12, hour), true, core.Never},
		{"when it fits again", claim(5, hour), []core.Result{usedUp}, 30 * time.Minute, claim(5, hour), false, 0},
		{"one of two limits", claim(5, two), []core.Result{usedUp, admits}, time.Minute, claim(2, two), true, 59 * time.Minute},
		{"other limits", claim(5, two), []core.Result{usedUp, admits}, time.Minute, claim(2, hour), false, 0},
		{"another key", claim(5, hour), []core.Result{usedUp}, 0, other, false, 0},
		{"a longer wait", short, []core.Result{usedUp}, 5 * time.Minute, long, true, 15 * time.Minute},
		{"a wait that is long enough", short, []core.Result{usedUp}, 20 * time.Minute, long, false, 0},
		{"a shorter wait", long, []core.Result{usedUp}, 35 * time.Minute, short, true, 5 * time.Minute},
		{"a request that may wait", claim(5, hour), []core.Result{usedUp}, 0, waits, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(nil, Options{DenyCache: 1}) // which all keys share
			claims := []core.Claim{row.asked}
			s.denials.forget([]core.Pair{{Rule: "r", Key: "k"}})
			slots, changes := s.denials.slotsOf(claims, nil)
			s.denials.remember(claims, slots, row.results, time.Now().Add(-time.Second), changes)
			time.Sleep(row.later)
			results, denied := s.Denied(&row.claim, nil)
			must.Equal(t, denied, row.denied, "%s: denied", row.why)
			if denied && (len(results) != len(row.claim.Limits) || results[0].Allowed || results[0].RetryAfter != row.retry) {
				t.Errorf("%s: %+v, want to retry after %v", row.why, results, row.retry)
			}
			s.denials.forget([]core.Pair{{Rule: "r", Key: "k"}})
			_, denied = s.Denied(&row.claim, nil)
			expect.True(t, !denied, "%s: denied after a reset", row.why)
		})
	}
	_, denied := New(nil, Options{}).Denied(&waits, nil)
	expect.True(t, !denied, "a store without a deny cache remembers a denial")
}

// A request may have several claims of a pair. What is known is about the claim that was denied.
func TestKnownDenialOfOneOfTwoClaims(t *testing.T) {
	s := New(nil, Options{DenyCache: 100})
	limits := core.MustParseLimits("10/h, 20/d")
	fits := core.Result{Limit: limits[0], Allowed: true, Remaining: 9}
	claims := []core.Claim{{Rule: "r", Key: "k", Cost: 1, Limits: limits}, {Rule: "r", Key: "k", Cost: 10, Limits: limits}}
	results := []core.Result{fits, fits, fits, {Limit: limits[1], Remaining: 9, RetryAfter: time.Hour, ResetAfter: 2 * time.Hour}}
	slots, changes := s.denials.slotsOf(claims, nil)
	s.denials.remember(claims, slots, results, time.Now(), changes)
	for i, want := range []bool{false, true} {
		known, denied := s.Denied(&claims[i], nil)
		if denied != want || denied && (len(known) != 2 || !known[0].Allowed || known[1].Allowed) {
			t.Errorf("a cost of %d: %+v, %v, want denied %v", claims[i].Cost, known, denied, want)
		}
	}
}
