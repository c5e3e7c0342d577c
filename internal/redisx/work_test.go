package redisx_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// fill charges a sliding log n times, at n instants.
func fill(t *testing.T, s *redisx.Store, c core.Claim, n int) (charged []core.Settlement) {
	t.Helper()
	for range n {
		r, err := s.Take(context.Background(), []core.Claim{c}, nil)
		if err != nil || !r[0].Allowed {
			t.Fatalf("%+v, %v", r, err)
		}
		charged = append(charged, settled([]core.Claim{c}, r)...)
		s.Shift(time.Microsecond)
	}
	return charged
}

// A refund of the oldest entry runs no more commands than one of the newest, however many are between them.
func TestRefundCostsTheSameInALongLog(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := redisx.New(client, options)
	c := claimOf("k", core.PerHour(10_000).Using(core.SlidingLog))
	charged := fill(t, s, c, 10_000)
	for _, i := range []int{0, 1, 70, 5000, 9800, 9999} {
		before := commands(t, client)
		if err := s.Settle(ctx, charged[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if n := commands(t, client) - before; n > 12 {
			t.Errorf("a refund of entry %d took %d commands", i, n)
		}
	}
	c.Peek = true
	if r := take(t, s, c)[0]; r.Remaining != 6 {
		t.Errorf("%d remaining after 6 refunds, want 6", r.Remaining)
	}
}

// commands returns how many commands a server has run, including commands in scripts.
func commands(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	for line := range strings.Lines(c.Info(context.Background(), "commandstats").Val()) {
		var calls int
		if name, stats, ok := strings.Cut(line, ":"); ok && !strings.HasSuffix(name, "_info") {
			_, _ = fmt.Sscanf(stats, "calls=%d,", &calls)
			n += calls
		}
	}
	return n
}

// A decision reads and writes few bytes, however many sub-buckets or entries are in use.
func TestDecisionMovesFewBytes(t *testing.T) {
	client := redistest.Start(t).Client(t)
	for _, limit := range []string{"1000000/h;sliding-window;buckets=3600", "4000/h;sliding-log"} {
		flush(t, client)
		s := redisx.New(client, options)
		c := claimOf("k", core.MustParseLimits(limit)...)
		for range 3600 {
			take(t, s, c)
			s.Shift(time.Second - 100*time.Microsecond)
		}
		field := fieldOf(c.Limits[0])
		blocks := client.HLen(context.Background(), pairKey).Val() - 1
		if blocks < 50 || blocks > 60 {
			t.Errorf("%s: %d blocks, want 3,600 entries in blocks of 64", limit, blocks)
		}
		if n := client.Do(context.Background(), "hstrlen", pairKey, field).Val().(int64); n > 3000 {
			t.Errorf("%s: a decision writes %d bytes", limit, n)
		}
		before := commands(t, client)
		take(t, s, c)
		if n := commands(t, client) - before; n > 11 {
			t.Errorf("%s: a decision took %d commands", limit, n)
		}
	}
}

func TestLongSlidingLimitsForgetBlockByBlock(t *testing.T) {
	client := redistest.Start(t).Client(t)
	for _, limit := range []string{"1000/h;sliding-window;buckets=3600", "1000/h;sliding-log"} {
		flush(t, client)
		s := redisx.New(client, options)
		c := claimOf("k", core.MustParseLimits(limit)...)
		for range 1000 {
			take(t, s, c)
			s.Shift(2 * time.Second)
		}
		if r := take(t, s, c)[0]; r.Allowed {
			t.Fatalf("%s: %+v, want a denial", limit, r)
		}
		s.Shift(45 * time.Minute) // 16 minutes of the first 33 count no longer
		r := take(t, s, c)[0]
		if r.Remaining < 500 || r.Remaining > 560 {
			t.Errorf("%s: %d remain, want half and a little", limit, r.Remaining)
		}
		for range 3 { // each removes some of the blocks that have ended
			take(t, s, c)
		}
		if n := client.HLen(context.Background(), pairKey).Val(); n > 10 {
			t.Errorf("%s: %d fields are kept, want half of 16", limit, n)
		}
		s.Shift(2 * time.Hour)
		if r := take(t, s, c)[0]; r.Remaining != 999 {
			t.Errorf("%s: %d remain in the end, want 999", limit, r.Remaining)
		}
		for range 3 {
			s.Shift(2 * time.Hour)
			take(t, s, c)
		}
		if n := client.HLen(context.Background(), pairKey).Val(); n != 1 {
			t.Errorf("%s: %d fields are kept in the end, want 1", limit, n)
		}
	}
}

func TestLostBlockCountsUntilItsNewestEntryEnds(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := claimOf("k", core.MustParseLimits("100/h;sliding-log")...)
	fill(t, s, c, 100)
	client.HDel(context.Background(), pairKey, fieldOf(c.Limits[0])+":1")
	r := take(t, s, c)[0]
	if r.Allowed || r.RetryAfter > time.Hour {
		t.Errorf("%+v, want a denial for an hour at most", r)
	}
	s.Shift(r.RetryAfter) // the first wait is by the oldest entry, which turns out to be lost
	if r = take(t, s, c)[0]; !r.Allowed {
		s.Shift(r.RetryAfter)
		r = take(t, s, c)[0]
	}
	if r.Remaining < 63 {
		t.Errorf("%d remain, want at least all of the block but one", r.Remaining)
	}
}

// If the entries that are not in the record are lost, the newest one counts for them.
func TestLostEntriesCountUntilTheNewestEnds(t *testing.T) {
	for _, n := range []int{10, 100} { // without blocks, and with one
		s, server := frozen(t)
		c := claimOf("k", core.PerHour(100).Using(core.SlidingLog))
		for i := range n {
			server.SetTime(start.Add(time.Duration(i) * time.Second))
			take(t, s, c)
		}
		server.HDel(pairKey, fieldOf(c.Limits[0]))
		server.SetTime(start.Add(time.Hour)) // the oldest entry ends
		if r := take(t, s, c)[0]; r.Remaining != max(0, 99-n) || s.Repaired() != 1 {
			t.Errorf("%d entries: %+v, %d states repaired", n, r, s.Repaired())
		}
		newest := time.Duration(n-1) * time.Second
		server.SetTime(start.Add(time.Hour + newest - time.Microsecond))
		if r := take(t, s, c)[0]; r.Remaining > 100-n {
			t.Errorf("%d entries: %+v before the newest has ended", n, r)
		}
		server.SetTime(start.Add(time.Hour + newest))
		if r := take(t, s, c)[0]; r.Remaining < 97 || s.Repaired() != 1 {
			t.Errorf("%d entries: %+v after the newest has ended, %d states repaired", n, r, s.Repaired())
		}
	}
}

func TestWaitsOfLostEntries(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerMinute(12).Using(core.SlidingLog))
	for i := range 12 {
		server.SetTime(start.Add(time.Duration(i) * time.Second))
		take(t, s, c)
	}
	server.HDel(pairKey, fieldOf(c.Limits[0]))
	c.Cost = 2
	for range 2 {
		if r := take(t, s, c)[0]; r.RetryAfter != time.Minute || r.RefillAfter != time.Minute || s.Repaired() > 1 {
			t.Errorf("%+v, %d states repaired, want the waits for the newest entry", r, s.Repaired())
		}
	}
}

// Many clients come back at once, each with hundreds of sub-buckets that have ended meanwhile. What one run of the
// script does for them is bounded: by how many decisions it makes, and by the commands of each.
func TestClientsWithLongWindowsThatComeBackShareTheServer(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := redisx.New(client, options)
	claims := make([]core.Claim, 64)
	for i := range claims {
		claims[i] = claimOf(fmt.Sprint(i), core.MustParseLimits("1000000/h;sliding-window;buckets=3600")...)
	}
	for range 1000 {
		take(t, s, claims...)
		s.Shift(time.Second)
	}
	s.Shift(50 * time.Minute)
	client.ConfigResetStat(ctx)
	var callers sync.WaitGroup
	for _, c := range claims {
		callers.Go(func() {
			if r, err := s.Take(ctx, []core.Claim{c}, nil); err != nil || !r[0].Allowed {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	callers.Wait()
	runs, all := calls(t, client, "fcall"), commands(t, client)
	if runs < 64/17 {
		t.Errorf("%d runs of the script for 64 decisions that may take long", runs)
	}
	if all > 64*10 {
		t.Errorf("%d commands in %d runs for 64 decisions, want 9 for each and a few for each run", all, runs)
	}
}
