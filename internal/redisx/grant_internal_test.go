package redisx

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// fetchFor returns a grant of 10 for an entry with 10, in the call for which 5 others are given back.
func fetchFor(t *testing.T, s *Store, c core.Claim) *fetch {
	e := s.lend(t, c, 10)
	e.ensureRare().grant = new(grant)
	_, hash, _ := s.table().placeOf(c)
	at, n := s.ahead(t, c, 5)
	return &fetch{s, s.table(), hash, e, e.key, e.terms, 10, backs{{at, n}}, time.Minute}
}

// leave takes the entry of a claim out of the table.
func (f *fetch) leave(c core.Claim) {
	shard, hash, _ := f.table.placeOf(c)
	f.table.remove(shard, hash, f.entry)
}

func TestAGrantIsAddedToItsLease(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	f := fetchFor(t, s, c)
	f.run()
	if f.entry.available() != 20 || f.entry.pause != 0 || f.entry.rare != nil {
		t.Errorf("%d left, a pause of %d, %+v", f.entry.available(), f.entry.pause, f.entry.rare)
	}
	if n := s.LeaseStats().Returned; n != 5 || s.remains(t, c) != 80 {
		t.Errorf("%d given back, %d remain, want 5 and 80", n, s.remains(t, c))
	}
}

// What a grant that was not sent would have given back is given back later.
func TestAGrantThatIsNotSentGivesNothingBack(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	for _, gone := range []bool{false, true} {
		f := fetchFor(t, s, c)
		if f.timeout = -1; gone {
			f.leave(c)
		}
		f.run()
		unused, later := f.entry.takeUnused(), f.table.toReturn()
		if f.entry.available() != 10 || f.entry.pause != pauseSpans || s.LeaseStats().Returned != 0 {
			t.Errorf("%d left, a pause of %d, %d given back", f.entry.available(), f.entry.pause, s.LeaseStats().Returned)
		}
		if gone && (later != 5 || unused.sum() != 0) || !gone && (unused != f.backs || later != 0) {
			t.Errorf("the lease is gone: %v: %v and %d to be given back", gone, unused, later)
		}
		c.Key = "other"
	}
}

// An errorReply is what a server answers that does not do what it is asked.
type errorReply string

func (e errorReply) Error() string { return string(e) }
func (errorReply) RedisError()     {}

// failures are the errors of calls, and whether it is known that the server has not done what it was asked. If it is not, what the call
// should give back is lost: if it were given back again, the limit would be exceeded.
var failures = map[error]bool{errors.New("cut"): false, errorReply("OOM"): true, errorReply("READONLY"): true, errorReply("NOPERM"): true}

func TestWhatAGrantThatFailedShouldGiveBack(t *testing.T) {
	for failure, known := range failures {
		s, h := tapped(t)
		f := fetchFor(t, s, leasedFor("k", "100/d"))
		h.next(func() error { return failure })
		f.run()
		if f.entry.available() != 10 || f.entry.pause != pauseSpans || s.LeaseStats().Returned != 0 {
			t.Errorf("%v: %d left, a pause of %d, %d given back", failure, f.entry.available(), f.entry.pause, s.LeaseStats().Returned)
		}
		if unused := f.entry.takeUnused(); known && unused != f.backs || !known && unused.sum() > 0 {
			t.Errorf("%v: %v to be given back", failure, unused)
		}
	}
}

func TestWhatATakeThatFailedShouldGiveBack(t *testing.T) {
	for failure, known := range failures {
		s, h := tapped(t)
		c := leasedFor("k", "100/d")
		e := s.lend(t, c, 10)
		e.pause = pauseSpans // no grant is asked for
		c.Cost = 11
		h.next(func() error { return failure })
		if _, err := s.Take(t.Context(), []core.Claim{c}, nil); !errors.Is(err, failure) {
			t.Errorf("%v, want %v", err, failure)
		}
		if n := s.table().toReturn(); known != (n == 10) || !known && n > 0 {
			t.Errorf("%v: %d to be given back", failure, n)
		}
	}
}

func TestWhatASweepThatFailedShouldGiveBack(t *testing.T) {
	for failure, known := range failures {
		s, h := tapped(t)
		table := s.table()
		for _, key := range []string{"k", "other"} {
			c := leasedFor(key, "100/d")
			e := s.lend(t, c, 10)
			table.giveBack(e.key, e.terms, e.finish())
		}
		h.next(func() error { return failure })
		table.sweep()
		if n := table.toReturn(); known != (n == 20) || !known && n > 0 {
			t.Errorf("%v: %d to be given back", failure, n)
		}
		table.sweep()
		if n := s.LeaseStats().Returned; known != (n == 20) || !known && n > 0 {
			t.Errorf("%v: %d given back", failure, n)
		}
	}
}

func TestAGrantForALeaseThatIsGoneIsGivenBack(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	f := fetchFor(t, s, c)
	f.leave(c)
	f.run()
	if f.entry.available() != 10 || f.table.toReturn() != 10 || s.LeaseStats().Returned != 5 {
		t.Errorf("%d left, %d to be given back, %d given back", f.entry.available(), f.table.toReturn(), s.LeaseStats().Returned)
	}
}

// The pause after a grant of nothing is of the span in which that comes.
func TestThePauseBeginsWithTheGrant(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	f := fetchFor(t, s, c)
	c.Cost = 85
	s.mustRun(t, s.jobOf(t, c))
	f.backs = backs{}
	f.table.pass(time.Minute)
	f.run()
	f.entry.advance(f.table.now(), f.terms.length)
	if f.entry.pause != pauseSpans {
		t.Errorf("a pause of %d spans, want %d", f.entry.pause, pauseSpans)
	}
}

func TestAGrantIsDoneWhenItHasRun(t *testing.T) {
	s, h := tapped(t)
	c := leasedFor("k", "100/d")
	e := s.lend(t, c, 8)
	goOn := make(chan struct{})
	h.next(func() error { <-goOn; return nil })
	c.Cost = 6
	if _, ok := s.TakeLocal([]core.Claim{c}, nil); !ok {
		t.Fatal("not decided from the lease")
	}
	shard, _, _ := s.table().placeOf(c)
	shard.mu.Lock()
	g := e.grantInFlight()
	shard.mu.Unlock()
	if g == nil {
		t.Fatal("no grant is asked for when little is left")
	}
	close(goOn)
	<-g.ctx.Done()
	select {
	case <-g.done:
	default:
		t.Error("its end is not told")
	}
	if g.ctx.Err() != context.Canceled || e.available() != 8 {
		t.Errorf("ended by %v, %d left", g.ctx.Err(), e.available())
	}
}

// Each end that a grant may have, of itself or of what waits for it, ends a wait.
func TestAWaitForAGrantEnds(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan struct{})
	close(done)
	for why, row := range map[string]struct {
		g   grant
		ctx context.Context
	}{
		"done":     {grant{context.Background(), done}, context.Background()},
		"late":     {grant{over, make(chan struct{})}, context.Background()},
		"given up": {grant{context.Background(), make(chan struct{})}, over},
	} {
		ended := make(chan struct{})
		go func() {
			row.g.wait(row.ctx)
			if why != "late" {
				waitForAll(row.ctx, []*grant{&row.g})
			}
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("%s: waits on", why)
		}
	}
}
