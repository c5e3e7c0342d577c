package redisx_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"github.com/spillgate/spillgate/internal/testpass"
)

// Two processes whose clocks differ by less than a day agree on the window: the server's clock picks it.
func TestProcessesWithOtherClocksOpenOneWindow(t *testing.T) {
	testpass.Sequential(t)
	for _, limit := range []core.Limit{core.PerDay(10).In("Europe/Berlin"), core.PerMonth(10).In("America/Havana").From(31), core.PerWeek(10), core.PerYear(10)} {
		for _, off := range []time.Duration{time.Hour, -time.Hour, 24*time.Hour - time.Minute, time.Minute - 24*time.Hour} {
			one, server := frozen(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
			defer client.Close()
			other := redisx.New(client, options)
			_, turn := limit.Calendar.Window(start)
			for at := turn.Add(-2 * time.Second); at.Before(turn.Add(2 * time.Second)); at = at.Add(time.Second) {
				server.SetTime(at)
				one.SetLocal(at)
				other.SetLocal(at.Add(off))
				admitted := 0
				for range 8 {
					for i, s := range []*redisx.Store{one, other, other, one} { // either may open the window
						results := must.Get(s.Take(t.Context(), []core.Claim{{Key: []string{"k", "j"}[i/2], Limits: []core.Limit{limit}}}, nil))(t)
						if results[0].Allowed {
							admitted++
						}
					}
				}
				want := 0
				if at.Equal(turn.Add(-2*time.Second)) || at.Equal(turn) {
					want = 20
				}
				if admitted != want {
					t.Errorf("%v, clocks %v apart, %v after the turn: %d admitted, want %d", limit, off, at.Sub(turn), admitted, want)
				}
			}
		}
	}
}

func TestClockMoreThanADayOffIsAMistake(t *testing.T) {
	store, server := frozen(t)
	server.SetTime(start)
	month := core.Claim{Rule: "plan", Key: "k", Limits: []core.Limit{core.PerMonth(5)}}
	for _, off := range []time.Duration{25 * time.Hour, -25 * time.Hour} {
		store.SetLocal(start.Add(off))
		if _, err := store.Take(context.Background(), []core.Claim{month}, nil); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "differ by more than a day") {
			t.Errorf("%v off: got %v", off, err)
		}
		grant := core.Settlement{Rule: "plan", Key: "k", Limits: month.Limits, Grant: 5}
		if err := store.Settle(context.Background(), []core.Settlement{grant}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a grant, %v off: got %v", off, err)
		}
		if _, err := store.Take(context.Background(), []core.Claim{{Key: "k", Limits: []core.Limit{core.PerMinute(5)}}}, nil); err != nil {
			t.Errorf("a limit without a calendar, %v off: %v", off, err)
		}
	}
	store.SetLocal(start)
	results, err := store.Take(context.Background(), []core.Claim{month}, nil)
	if err != nil || results[0].Remaining != 4 {
		t.Errorf("got %+v, %v: a call that failed has changed something", results, err)
	}
}

// TestLeasesAcrossTheTurnOfACalendarMonth leases a key to three stores until the month is over: neither month admits
// more than the rate.
func TestLeasesAcrossTheTurnOfACalendarMonth(t *testing.T) {
	limit := core.PerMonth(3_000).In("Europe/Berlin").From(15)
	_, turn := limit.Calendar.Window(start)
	inBubble(t, single(redistest.Start(t, redistest.KeepKeys...)), 3, func(t *testing.T, stores []*redisx.Store) {
		begun := time.Now()
		for _, s := range stores {
			s.SetClock(func() time.Time { return turn.Add(time.Since(begun) - 30*time.Millisecond) })
			s.SetLocal(turn.Add(20 * time.Hour))
		}
		claims := []core.Claim{{Rule: "plan", Key: "k", Limits: []core.Limit{limit}, Cost: 1, Lease: 3 * time.Millisecond}}
		var admitted [2]int
		for at := turn.Add(-time.Second); at.Before(turn.Add(30 * time.Millisecond)); time.Sleep(200 * time.Microsecond) {
			for _, s := range stores {
				for range 20 {
					r := take(t, s, claims...)[0]
					window := 0
					if at = r.At; !at.Before(turn) {
						window = 1
					}
					if r.Allowed {
						admitted[window]++
					}
				}
			}
		}
		for _, s := range stores {
			leasesEnd(t, s)
		}
		claims[0].Peek, claims[0].Lease = true, 0
		charged := limit.Rate - take(t, stores[0], claims...)[0].Remaining
		t.Logf("admitted %v, charged %d, %d decisions from leases", admitted, charged, decisionsOf(stores))
		if admitted[0] > limit.Rate || admitted[0]+admitted[1] > limit.Rate+charged {
			t.Errorf("%v were admitted before the turn and after it, and %d are charged in the new month", admitted, charged)
		}
		if decisionsOf(stores) == 0 || admitted[0] == 0 || admitted[1] == 0 {
			t.Errorf("%d decisions from leases, admitted %v", decisionsOf(stores), admitted)
		}
	})
}

// A stored calendar window that makes no sense counts as used up, until the current window ends at the latest.
func TestCorruptCalendarWindowDeniesUntilTheTurnAtMost(t *testing.T) {
	limit := core.PerMonth(5).In("Europe/Berlin").From(31)
	_, turn := limit.Calendar.Window(start)
	micros := uint64(turn.UnixMicro())
	for name, spoil := range map[string]func(w []uint64) []uint64{
		"too large a count":      func(w []uint64) []uint64 { w[2] = 1 << 60; return w },
		"no exact count":         func(w []uint64) []uint64 { w[2] = 1<<53 + 2; return w },
		"all bits of the count":  func(w []uint64) []uint64 { w[2] = 1<<64 - 1; return w },
		"a window of the future": func(w []uint64) []uint64 { w[2], w[3], w[4] = 5, 2*micros, 2*micros+9; return w },
		"no end":                 func(w []uint64) []uint64 { return w[:4] },
		"no window":              func(w []uint64) []uint64 { return w[:3] },
	} {
		s, server := frozen(t)
		s.SetLocal(start)
		c := claimOf("k", limit)
		take(t, s, c)
		var stored []uint64
		for text := server.HGet(pairKey, "s"); len(text) >= 8; text = text[8:] {
			stored = append(stored, binary.LittleEndian.Uint64([]byte(text)))
		}
		if len(stored) != 5 || stored[2] != 1 {
			t.Fatalf("stored %v, want an expiry, a kind, a count and a window", stored)
		}
		server.HSet(pairKey, "s", words(spoil(stored)...))
		if r := take(t, s, c)[0]; r.Allowed || r.Remaining != 0 || r.RetryAfter != turn.Sub(start) {
			t.Errorf("%s: got %+v, want a denial until %v", name, r, turn)
		}
		server.SetTime(turn)
		s.SetLocal(turn)
		if r := take(t, s, c)[0]; !r.Allowed || r.Remaining != 4 {
			t.Errorf("%s: after the turn, got %+v", name, r)
		}
	}
}
