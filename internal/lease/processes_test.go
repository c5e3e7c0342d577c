package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

// Processes that lease one key admit what the limit admits in that time and a lease, and return all that they do not use.
func TestProcessesShareALimitExactly(t *testing.T) {
	testpass.Thorough(t)
	for _, row := range []struct {
		limit       string
		each        int // requests of each process per millisecond
		least, most int // admitted in all
	}{
		{"100000/d", 3, 3 * 3 * 500, 3 * 3 * 500}, // far from the limit
		{"1000/d;fixed-window", 2, 950, 1000},
		{"1000/s;burst=100", 2, 570, 100 + 500 + 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{now: start}
			c := core.Claim{Key: "k", Limits: core.MustParseLimits(row.limit), Cost: 1, Lease: 100 * time.Millisecond}
			processes := []*fake{s.process(t), s.process(t), s.process(t)}
			admitted, asked := 0, 0
			for range 500 {
				for _, p := range processes {
					for range row.each {
						asked++
						if r := p.decide(t, c); r[0].Allowed {
							admitted++
						}
						synctest.Wait()
					}
				}
				time.Sleep(time.Millisecond)
				s.pass(time.Millisecond)
			}
			expect.True(t, admitted <= row.most && admitted >= row.least,
				"%s: %d of %d were admitted, want %d to %d", row.limit, admitted, asked, row.least, row.most)
			time.Sleep(time.Second)
			for i, p := range processes {
				if stats := p.LeaseStats(); stats.Keys > 0 || stats.Decisions == 0 || !p.leases.Ended() {
					t.Errorf("%s: process %d ends with %+v", row.limit, i, stats)
				}
			}
			if c.Limits[0].Period == 24*time.Hour {
				n, want, drained := processes[0].remains(t, c), int64(c.Limits[0].Rate-admitted), int64(0)
				if c.Limits[0].Algorithm == core.TokenBucket {
					drained = 3 // at most, of what was charged ahead: a refund gives back only what cannot have drained
				}
				expect.True(t, n <= want && n >= want-drained,
					"%s: %d remain after %d were admitted, want %d", row.limit, n, admitted, want)
			}
		})
	}
}

// A process that uses less than a limit finds its burst as large as without a lease: what it has leased is used, not returned too late for a
// bucket to give it back.
func TestALeaseLeavesTheBurst(t *testing.T) {
	testpass.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		s := &server{now: start}
		p, c := s.process(t), core.Claim{Key: "k", Limits: core.MustParseLimits("100/s;burst=1000"), Cost: 1, Lease: time.Second}
		for range 5000 {
			must.True(t, p.decide(t, c)[0].Allowed, "denied at 0.8 of the limit")
			synctest.Wait()
			time.Sleep(12500 * time.Microsecond)
			s.pass(12500 * time.Microsecond)
		}
		time.Sleep(3 * time.Second) // the lease ends, but no time passes in the store
		expect.AtLeast(t, p.remains(t, c), 950, "requests that remain")
	})
}

// From one calendar window to the next, processes that lease one key admit at most the rate in the old window, and at most the rate in
// the new one. What a lease of the old window has left may be used for the rest of the lease, and counts in the old window.
func TestLeasesAcrossTheEndOfACalendarWindow(t *testing.T) {
	testpass.Sequential(t)
	const lease, each = 100 * time.Millisecond, 300 * time.Millisecond
	for _, rate := range []int{1000, 2500, 1_000_000} { // used up before the end, used up in the last lease before it, never used up
		synctest.Test(t, func(t *testing.T) {
			limit := core.PerDay(rate).In("America/New_York")
			_, end := limit.Calendar.Window(time.UnixMicro(start))
			s := &server{now: end.Add(-each).UnixMicro()}
			c := core.Claim{Key: "k", Limits: []core.Limit{limit}, Cost: 1, Lease: lease}
			processes := []*fake{s.process(t), s.process(t), s.process(t)}
			var admitted [2]int
			for range 2 * each / time.Millisecond {
				window := 0
				if s.now >= end.UnixMicro() {
					window = 1
				}
				for _, p := range processes {
					for range 3 {
						r := p.decide(t, c)[0]
						if r.Allowed {
							admitted[window]++
						}
						if wait := r.ResetAfter; !r.Allowed && (wait <= 0 || !r.At.Add(wait).Equal(end.AddDate(0, 0, window))) {
							t.Errorf("rate %d: denied at %v for %v, want until the end", rate, r.At, wait)
						}
						synctest.Wait()
					}
				}
				time.Sleep(time.Millisecond)
				s.pass(time.Millisecond)
			}
			asked := int(each/time.Millisecond) * 9
			late := admitted[1] - min(asked, rate) // from leases of the old window
			if admitted[0] > rate || admitted[0] < min(asked, rate)*9/10 || admitted[1] < min(asked, rate)*9/10 || late > 0 && admitted[0]+late > rate {
				t.Errorf("rate %d: %v of %d were admitted in the two windows", rate, admitted, asked)
			}
			time.Sleep(time.Second)
			charged := rate - int(processes[0].remains(t, c))
			expect.True(t, charged <= min(rate, admitted[1]) && admitted[0]+admitted[1] <= rate+charged,
				"rate %d: %v were admitted, and %d are charged in the second window", rate, admitted, charged)
		})
	}
}
