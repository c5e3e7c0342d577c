package redisx_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

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
	if older := server.HGet(pairKey, fieldOf(c.Limits[0])); older != words(uint64(start.Add(36*time.Second).UnixMicro()), 1) {
		t.Errorf("%x, want the entry of 36 s", older)
	}
}

// The record of a log has room for the newest entry and eight recent ones. Older ones are in a field, until few are left.
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

// A dry run that is denied reads the entries of its log while another limit of the pair is charged.
func TestEntriesStayWhenADryRunReadsThem(t *testing.T) {
	s, server := frozen(t)
	log, bucket := claimOf("k", core.PerMinute(12).Using(core.SlidingLog)), claimOf("k", core.PerHour(100))
	for i := range 12 {
		server.SetTime(start.Add(time.Duration(i) * time.Second))
		take(t, s, log)
	}
	log.DryRun, log.Cost = true, 5
	take(t, s, log, bucket)
	log.Peek, log.Cost = true, 1
	server.SetTime(start.Add(68 * time.Second)) // nine have ended
	if r := take(t, s, log)[0]; r.Remaining != 9 || r.RefillAfter != time.Second || s.Repaired() != 0 {
		t.Errorf("%+v, %d states repaired, want the three of the last seconds", r, s.Repaired())
	}
}

// Two holds that ended are charged by one request, and at the end of each all entries have ended.
func TestFieldOfEntriesThatEndTwice(t *testing.T) {
	s, server := frozen(t)
	l := core.Every(1000, 2*time.Second).Using(core.SlidingLog)
	c := claimOf("k", l, core.PerHour(1000))
	hold := c
	hold.Hold = true
	at := func(after time.Duration, c core.Claim) {
		server.SetTime(start.Add(after))
		take(t, s, c)
	}
	at(0, hold)
	at(61*time.Second, hold)
	for i := range 12 {
		at(62*time.Second+time.Duration(i)*time.Millisecond, c)
	}
	if server.HGet(pairKey, fieldOf(l)) == "" {
		t.Fatal("there is no field yet")
	}
	at(130*time.Second, c)
	if n := len(server.HGet(pairKey, fieldOf(l))) / 16; n != 0 {
		t.Errorf("the record has all entries, and a field has %d", n)
	}
}

// Blocks stay small when the newest entries are refunded again and again.
func TestBlocksStaySmall(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerHour(9000).Using(core.SlidingLog))
	now, charged := start, []time.Time(nil)
	for range 20 {
		for range 70 {
			now = now.Add(time.Millisecond)
			server.SetTime(now)
			take(t, s, c)
			charged = append(charged, now)
		}
		for range 10 {
			last := len(charged) - 1
			if err := s.Settle(t.Context(), settledAt(charged[last], c)); err != nil {
				t.Fatal(err)
			}
			charged = charged[:last]
		}
	}
	fields, _ := server.HKeys(pairKey)
	for _, field := range fields {
		if n := len(server.HGet(pairKey, field)) / 16; field != "s" && n > 64+8 {
			t.Errorf("field %s has %d entries", field, n)
		}
	}
	if r := take(t, s, c)[0]; r.Remaining != 9000-len(charged)-1 || s.Repaired() != 0 {
		t.Errorf("%+v after %d requests, %d states repaired", r, len(charged), s.Repaired())
	}
}

// A block whose entries were all refunded has none to give when the newest entry is refunded.
func TestRefundsBehindAnEmptyBlock(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerHour(160).Using(core.SlidingLog))
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }
	for i := range 160 {
		server.SetTime(at(i))
		take(t, s, c)
	}
	refund := func(i int) {
		if err := s.Settle(t.Context(), settledAt(at(i), c)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 64; i < 128; i++ { // the second block
		refund(i)
	}
	for i := 159; i >= 128; i-- {
		refund(i)
	}
	server.SetTime(at(300))
	take(t, s, c)
	server.SetTime(at(3640)) // 41 of the first block have ended
	c.Peek = true
	if r := take(t, s, c)[0]; r.Remaining != 160-23-1 || r.RefillAfter != time.Second {
		t.Errorf("%+v, want 23 requests of the first block and one more", r)
	}
}

// Refunds leave the first blocks with fewer entries, or with none.
func TestRefundsOfTheOldestBlocks(t *testing.T) {
	testpass.Sequential(t)
	for _, a := range []core.Algorithm{core.SlidingWindow, core.SlidingLog} {
		for _, blockSize := range []int{1, 3} {
			for _, order := range [][]int{{0, 1, 2, 3}, {7, 6, 5, 4, 3, 2, 1, 0}, {1, 5, 2, 4}} {
				oracle.Compare(t, onMiniredis(t, blockSize), refundsOf(a, order))
			}
		}
	}
}

// refundsOf returns a timeline of twenty requests, each in its own sub-bucket. Some are then refunded. After each refund, and
// while the other requests end, peeks of several costs ask how long to wait.
func refundsOf(a core.Algorithm, order []int) (steps []oracle.Step) {
	l := core.Every(20, 6000*time.Second).Using(a)
	if a == core.SlidingWindow {
		l.Buckets = 60
	}
	one := core.Claim{Key: "k", Limits: []core.Limit{l}}
	look := func(wait time.Duration) {
		for cost := 1; cost <= 20; cost += 6 {
			peek := one
			peek.Cost, peek.Peek = cost, true
			steps = append(steps, oracle.Step{Verb: "take", After: wait, Claims: []core.Claim{peek}})
			wait = 0
		}
	}
	for range 20 {
		steps = append(steps, oracle.Step{Verb: "take", After: 100 * time.Second, Claims: []core.Claim{one}})
	}
	for _, line := range order {
		steps = append(steps, oracle.Step{Verb: "settle", Of: line})
		look(0)
	}
	for range 20 {
		look(300 * time.Second)
	}
	return steps
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
