package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Processes that lease one key admit what the limit admits in that time and a lease, and give back all that they do not use.
func TestProcessesShareALimitExactly(t *testing.T) {
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
			if admitted > row.most || admitted < row.least {
				t.Errorf("%s: %d of %d were admitted, want %d to %d", row.limit, admitted, asked, row.least, row.most)
			}
			time.Sleep(time.Second)
			for i, p := range processes {
				if stats := p.LeaseStats(); stats.Keys > 0 || stats.Decisions == 0 || !p.leases.Ended() {
					t.Errorf("%s: process %d ends with %+v", row.limit, i, stats)
				}
			}
			if c.Limits[0].Period == 24*time.Hour {
				if n, want := processes[0].remains(t, c), c.Limits[0].Rate-admitted; n != int64(want) {
					t.Errorf("%s: %d remain after %d were admitted, want %d", row.limit, n, admitted, want)
				}
			}
		})
	}
}
