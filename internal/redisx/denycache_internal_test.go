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
)

// The server may decide a denial before a reset, while its reply is read after the reset.
func TestDenialFromBeforeAResetIsNotRemembered(t *testing.T) {
	s := New(nil, Options{DenyCache: 10})
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	now := time.Now()
	results := []core.Result{{RetryAfter: 2 * maxDenial}}
	find := func() *denial { return s.denials.find(claims, now) }
	changes := s.denials.changes(claims)
	s.denials.forget([]core.Pair{{Key: "k"}})
	if s.denials.remember(claims, results, now, changes); find() != nil {
		t.Error("a denial from before the reset is remembered")
	}
	if s.denials.remember(claims, results, now, s.denials.changes(claims)); find() == nil {
		t.Error("a denial from after the reset is not remembered")
	}
	claims[0].Limits[0].Rate = 6
	if find() != nil {
		t.Error("a remembered denial changed with the limits of the caller")
	}
}

func TestDenyCacheKeepsNoLongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where denials do not end meanwhile
		s := New(nil, Options{DenyCache: 1000})
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 300 {
			claims := []core.Claim{{Key: strings.Repeat(string(rune('a'+i%26)), 900_000) + strconv.Itoa(i), Limits: core.MustParseLimits("5/m")}}
			s.denials.remember(claims, []core.Result{{RetryAfter: 2 * maxDenial}}, time.Now(), 0)
			if _, ok := s.TakeLocal(claims, nil); !ok {
				t.Fatal("a denial is not remembered")
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > 2_000_000 {
			t.Errorf("300 denials of long keys take %d bytes", n)
		}
		runtime.KeepAlive(s)
	})
}

func TestDenyCacheDropsExpiredDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, Options{DenyCache: 100})
		add := func(key string) {
			s.denials.remember([]core.Claim{{Key: key, Limits: core.MustParseLimits("5/m")}}, []core.Result{{RetryAfter: 2 * maxDenial}}, time.Now(), 0)
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
		if n := kept(); n < 90 {
			t.Errorf("%d denials are remembered, want nearly 100", n)
		}
		time.Sleep(maxDenial)
		for range 60 {
			add("k")
		}
		if n := kept(); n < 90 {
			t.Errorf("%d denials are remembered for an outage, want nearly 100", n)
		}
		time.Sleep(maxDenial)
		for range 60 {
			add("k")
		}
		if n := kept(); n > 5 {
			t.Errorf("%d denials are kept after they have ended", n)
		}
	})
}

// Another process may return requests that it has leased; this process knows of it one Lease later.
func TestDenialIsRememberedForALeaseAtMost(t *testing.T) {
	client := frozenStore(t).decider.server.client
	for lease, want := range map[time.Duration]time.Duration{0: maxDenial, 50 * time.Millisecond: 50 * time.Millisecond, 5 * time.Second: maxDenial} {
		s := New(client, Options{Prefix: lease.String(), DenyCache: 1 << 16}) // a call of 50ms or more may sweep its own denial, if slots are few
		claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("1/d"), Lease: lease}}
		for range 2 {
			if _, err := s.Take(context.Background(), claims, nil); err != nil {
				t.Fatal(err)
			}
		}
		d := s.denials.slot([]byte(s.decider.layout.key("", "k"))).denial.Load()
		if d == nil || d.lasts != want {
			t.Errorf("lease %v: %+v, want a denial that lasts %v", lease, d, want)
		}
	}
}
