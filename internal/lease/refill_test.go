package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A fetch is a refill of an entry that has not been asked for yet.
type fetch struct {
	unused  Unused
	store   *fake
	table   *Table
	hash    uint64
	entry   *entry
	timeout time.Duration
}

// fetchFor returns a refill of 10 for an entry with 10, in the call for which 5 others are returned.
func fetchFor(t *testing.T, s *fake, c core.Claim) *fetch {
	e := s.lend(t, c, 10)
	e.refill = new(refill)
	s.table().refills.Add(1)
	_, hash := s.table().placeOf(c)
	at, n := s.ahead(c, 5)
	return &fetch{Unused{At: at, Count: n}, s, s.table(), hash, e, time.Minute}
}

func (f *fetch) run() {
	f.entry.add(f.unused.At, f.unused.Count)
	f.table.fill(f.hash, f.entry, 10, f.table.refunds(f.entry), f.timeout)
}

// If the call for a refill was not sent, the requests that it should have returned are returned later.
func TestARefillThatIsNotSentReturnsNothing(t *testing.T) {
	s := newFake(t)
	f := fetchFor(t, s, leasedFor("k", "100/d"))
	f.timeout = -1
	f.run()
	expect.True(t, f.entry.available() == 10 && f.entry.pause == pauseSpans && s.LeaseStats().Returned == 0 && *f.entry.unused == f.unused,
		"%d left, a pause of %d, %d returned, %v to be returned", f.entry.available(), f.entry.pause, s.LeaseStats().Returned, f.entry.unused)
}

// failures are the errors of calls, and whether it is known that the store has not done what it was asked. If it is
// not, what the call should return is lost: if it were returned again, the limit would be exceeded.
var failures = map[error]bool{errors.New("cut"): false, NotRefunded{errors.New("OOM")}: true}

func TestReturnsOfAFailedRefill(t *testing.T) {
	for failure, known := range failures {
		s := newFake(t)
		f := fetchFor(t, s, leasedFor("k", "100/d"))
		s.next(func() error { return failure })
		f.run()
		expect.True(t, f.entry.available() == 10 && f.entry.pause == pauseSpans && s.LeaseStats().Returned == 0,
			"%v: %d left, a pause of %d, %d returned", failure, f.entry.available(), f.entry.pause, s.LeaseStats().Returned)
		unused := f.entry.unused
		expect.True(t, known && *unused == f.unused || !known && unused == nil, "%v: %v to be returned", failure, unused)
	}
}

func TestReturnsOfAFailedTake(t *testing.T) {
	for failure, known := range failures {
		s := newFake(t)
		c := leasedFor("k", "100/d")
		s.lend(t, c, 10).pause = pauseSpans // no refill is asked for
		c.Cost = 11
		s.next(func() error { return failure })
		expect.ErrorIs(t, expect.ErrorOf(s.Take(t.Context(), []core.Claim{c}, nil)), failure, "result")
		if n := s.table().toReturn(); known != (n == 10) || !known && n > 0 {
			t.Errorf("%v: %d to be returned", failure, n)
		}
	}
}

func TestReturnsOfAFailedSweep(t *testing.T) {
	for failure, known := range failures {
		s := newFake(t)
		table := s.table()
		for _, key := range []string{"k", "other"} {
			e := s.lend(t, leasedFor(key, "100/d"), 10)
			e.finish(table.now(), e.terms.length)
			table.returnLater(table.refunds(e))
		}
		s.next(func() error { return failure })
		table.sweep()
		if n := table.toReturn(); known != (n == 20) || !known && n > 0 {
			t.Errorf("%v: %d to be returned", failure, n)
		}
		table.sweep()
		if n := s.LeaseStats().Returned; known != (n == 20) || !known && n > 0 {
			t.Errorf("%v: %d returned", failure, n)
		}
	}
}

// A refill that is in flight while a lease is ended, say by a ban, may have been charged before the ban.
func TestARefillOfALeaseThatIsEndedIsUnused(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	f := fetchFor(t, s, c)
	s.leases.End([]core.Pair{{Rule: c.Rule, Key: c.Key}})
	f.run()
	expect.True(t, f.entry.available() == 0 && f.entry.unused.Count == 10 && s.LeaseStats().Returned == 15,
		"%d left, %v to be returned, %d returned", f.entry.available(), f.entry.unused, s.LeaseStats().Returned)
}

// A refill of nothing begins a pause. The pause is measured from the arrival of that refill.
func TestThePauseBeginsWithTheRefill(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	f := fetchFor(t, s, c)
	c.Cost = 85
	s.charge(c)
	f.unused = Unused{}
	f.table.pass(time.Minute)
	f.run()
	f.entry.advance(f.table.now(), f.entry.terms.length)
	expect.Equal(t, f.entry.pause, pauseSpans, "spans of the pause")
}

// The time of a lease counts from before the call that asks for it: a slow call does not prolong the lease.
func TestALeaseCountsFromBeforeItsCall(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	f := fetchFor(t, s, c)
	f.entry.heard = start + 1 // before the store's clock went back
	s.next(func() error { f.table.pass(6 * time.Second); return nil })
	f.run()
	f.entry.advance(f.table.now(), f.entry.terms.length)
	expect.Equal(t, f.entry.available(), 20, "left after the call")
	wait, reset := until(f.entry.first.reset, f.table.now()), s.last[0].ResetAfter
	expect.True(t, wait <= reset && wait >= reset-time.Second, "a reset after %v counts from before the reply: after %v", reset, wait)
	f.table.pass(4 * time.Second)
	f.entry.advance(f.table.now(), f.entry.terms.length)
	expect.Equal(t, f.entry.available(), 0, "10 s after the call began: left")
}

// Whenever a refill ends, or a request that waits for it is canceled, the wait ends.
func TestAWaitForARefillEnds(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan struct{})
	close(done)
	for why, row := range map[string]struct {
		r   refill
		ctx context.Context
	}{
		"done":     {refill{ends: time.Now().Add(time.Hour), done: done}, context.Background()},
		"late":     {refill{ends: time.Now(), done: make(chan struct{})}, context.Background()},
		"given up": {refill{ends: time.Now().Add(time.Hour), done: make(chan struct{})}, over},
	} {
		ended := make(chan struct{})
		go func() {
			row.r.wait(row.ctx)
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("%s: waits on", why)
		}
	}
}

// Part of the capacity counts as missing until the store says otherwise, so a wait is never 0.
func TestAWaitIsAtLeastAMicrosecond(t *testing.T) {
	for at, want := range map[int64]time.Duration{0: 1000, 100: 1000, 101: 1000, 1100: 1000, 1101: 2000, 5100: 5000} {
		expect.Equal(t, until(at, 100), want, "from 100 until %d", at)
	}
	expect.AtLeast(t, until(later(1, 1<<62), 1), 24*365*time.Hour, "a wait of for ever")
}

// While a lease has something left, its limit may recover: what remains is at most the capacity, and then nothing refills.
func TestRemainingIsAtMostTheCapacity(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d, 200/h")
	e := s.lend(t, c, 10)
	e.report([]core.Result{{Remaining: 95, RefillAfter: ms, ResetAfter: 2 * ms}, {Remaining: 150, RefillAfter: ms, ResetAfter: 2 * ms}}, 0)
	r := e.appendResults(nil, &c, 1)
	expect.True(t, r[0].Remaining == 100 && r[0].RefillAfter == 0 && r[0].ResetAfter == 0, "recovered: %+v", r[0])
	expect.True(t, r[1].Remaining == 160 && r[1].RefillAfter > 0 && r[1].ResetAfter > r[1].RefillAfter, "not yet recovered: %+v", r[1])
}

// The call for a refill returns what is unused, so that a busy key needs no further call.
func TestARefillReturnsWhatIsUnused(t *testing.T) {
	s, c, e := lent(t)
	e.drop(s.table().now(), e.terms.length)
	_, hash := s.table().placeOf(c)
	s.table().fetch(hash, e, 4)
	if s.quiet(); s.LeaseStats().Returned != 10 || e.unused != nil || s.remains(t, c)+e.available() != 100 {
		t.Errorf("%+v, %d left, %d remain", s.LeaseStats(), e.available(), s.remains(t, c))
	}
}

// Remaining follows the latest answer of the store. Of several answers of one instant, the lowest counts.
func TestRemainingFollowsTheLatestAnswer(t *testing.T) {
	const length = int64(time.Second)
	at := func(micros int64, remaining ...int) (results []core.Result) {
		for _, n := range remaining {
			results = append(results, core.Result{At: time.UnixMicro(micros), Remaining: n, RefillAfter: time.Second, ResetAfter: time.Minute})
		}
		return results
	}
	e := &entry{terms: &terms{length: length}}
	e.credit(0, length, 100, length, 5)
	e.report(at(100, 50, 70), 0)
	for i, row := range []struct {
		at            int64
		remain        int
		first, second uint32
	}{{99, 10, 50, 70}, {100, 60, 50, 70}, {100, 50, 50, 70}, {100, 49, 49, 59}, {101, 60, 60, 70}, {100, 10, 60, 70}} {
		if answer := at(row.at, row.remain, row.remain+10); e.isNews(answer) {
			e.report(answer, 5000)
		}
		expect.True(t, e.first.stored == row.first && e.first.next.stored == row.second,
			"row %d: %d and %d remain, want %d and %d", i, e.first.stored, e.first.next.stored, row.first, row.second)
	}
	expect.Equal(t, e.first, (usage{60, 0, 5000 + int64(time.Second), 5000 + int64(time.Minute), e.first.next}), "e.first")
}

// The store may decide other requests while the reply to a refill is on its way. That reply does not count them.
func TestAnswersThatOvertakeARefillCount(t *testing.T) {
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("1000000/1000d, 2000000/2000d"), Lease: 10 * time.Second}
	other := c
	other.Lease = 0
	for name, row := range map[string]struct {
		step   time.Duration
		claims []core.Claim
	}{
		"within an instant": {0, []core.Claim{c}},
		"later":             {time.Millisecond, []core.Claim{c}},
		"pair in two":       {0, []core.Claim{c, c}},
		"without a lease":   {time.Millisecond, []core.Claim{other}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			s.decide(t, c)
			decided, free := make(chan struct{}), make(chan struct{})
			keep := func() { close(decided); <-free }
			s.after.Store(&keep)
			var second sync.WaitGroup
			second.Go(func() { s.decide(t, c) })
			<-decided                                    // the first refill
			s.entry(t, func(e *entry) { e.late = true }) // so that others do not wait for it
			overtaking := 3 * len(row.claims)
			for range 3 {
				s.pass(row.step)
				must.Get(s.Take(context.Background(), row.claims, nil))(t)
			}
			close(free)
			second.Wait()
			s.withEntry(t, func(*entry) {})
			r, ok := s.TakeLocal([]core.Claim{c}, nil)
			expect.True(t, ok && r[0].Remaining == 1_000_000-overtaking-3 && r[1].Remaining == 2_000_000-overtaking-3,
				"from a lease: %v; got %+v", ok, r)
		})
	}
}
