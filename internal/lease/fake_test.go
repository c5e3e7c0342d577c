package lease

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

const start = 1_800_000_000_000_000 // microseconds

// A fake is a store that decides by package oracle, and the leases of one process from it.
type fake struct {
	*server
	leases *Table
}

// A server is what the processes of a test share. Its clock stands still unless it is moved.
type server struct {
	mu    sync.Mutex
	model oracle.Model
	now   int64 // microseconds

	calls  atomic.Int64
	before atomic.Pointer[func() error]
	after  atomic.Pointer[func()] // called before the reply of a call
	last   []core.Result          // what the last loan left
	sent   time.Time              // what Take returns
}

func newFake(t *testing.T) *fake { return (&server{now: start}).process(t) }

// process returns another process that uses the server.
func (s *server) process(t *testing.T) *fake {
	f := &fake{s, New(processStore{s})}
	t.Cleanup(f.leases.Stop)
	return f
}

// next sets a function that runs before the next call. If f returns an error, that call has no effect: see outcomes.
func (s *server) next(f func() error) { s.before.Store(&f) }

// call runs f as a call of the store that first refunds unused.
func (s *server) call(ctx context.Context, unused []core.Settlement, f func()) error {
	if err := ctx.Err(); err != nil {
		return NotRefunded{err}
	}
	s.calls.Add(1)
	if before := s.before.Swap(nil); before != nil {
		if err := (*before)(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil { // while before ran
		return err
	}
	if after := s.after.Swap(nil); after != nil {
		defer (*after)()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.model.Settle(s.now, unused)
	f()
	return err
}

type processStore struct{ *server }

func (s processStore) Take(ctx context.Context, claims []core.Claim, unused []core.Settlement, dst []core.Result) ([]core.Result, time.Time, error) {
	err := s.call(ctx, unused, func() { dst = append(dst, s.model.Take(s.now, claims)...) })
	return dst, s.sent, err
}

func (s processStore) Lend(ctx context.Context, loan core.Claim, unused []core.Settlement) (charged int64, left []core.Result, err error) {
	err = s.call(ctx, unused, func() {
		charged = s.model.Ahead(s.now, loan, int64(loan.Cost))
		loan.Peek, loan.Cost = true, 1
		left = s.model.Take(s.now, []core.Claim{loan})
		s.last = left
	})
	return charged, left, err
}

func (s processStore) Refund(ctx context.Context, unused []core.Settlement) []error {
	err := s.call(ctx, unused, func() {})
	return slices.Repeat([]error{err}, len(unused))
}

func (f *fake) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	results, _, err := f.leases.Take(ctx, claims, dst)
	return results, err
}

func (f *fake) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	return f.leases.TakeLocal(claims, dst)
}

func (f *fake) Settle(_ context.Context, settlements []core.Settlement) error {
	var banned []core.Pair
	for _, st := range settlements {
		if st.Ban > 0 {
			banned = append(banned, core.Pair{Rule: st.Rule, Key: st.Key})
		}
	}
	own := f.leases.Refund(settlements)
	f.leases.End(banned)
	defer f.leases.End(banned)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.model.Settle(f.now, own)
}

func (f *fake) Reset(_ context.Context, pairs []core.Pair) error {
	f.leases.End(pairs)
	defer f.leases.End(pairs)
	if before := f.before.Swap(nil); before != nil {
		_ = (*before)()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model.Reset(f.now, pairs)
	return nil
}

func (f *fake) LeaseStats() core.LeaseStats { return f.leases.Stats() }
func (f *fake) table() *Table               { return f.leases }

func (s *server) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += d.Microseconds()
}

func (f *fake) charge(c core.Claim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model.Take(f.now, []core.Claim{c})
}

// remains returns how many requests remain in the store for the first limit of a claim.
func (f *fake) remains(_ *testing.T, c core.Claim) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.Peek = true
	return int64(f.model.Take(f.now, []core.Claim{c})[0].Remaining)
}

// ahead charges n requests ahead without deciding any, and returns how many the store allowed.
func (f *fake) ahead(c core.Claim, n int64) (at, charged int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.model.Ahead(f.now, c, n)
}

// lend adds a lease of c with a loan of n requests.
func (f *fake) lend(t *testing.T, c core.Claim, n int64) *entry {
	t.Helper()
	table := f.table()
	shard, hash := table.placeOf(c)
	shard.mu.Lock()
	e := table.add(hash, &c)
	shard.mu.Unlock()
	e.refill = new(refill)
	table.refills.Add(1)
	table.fill(hash, e, n, nil, time.Minute)
	must.True(t, e.available() == n, "%d of %d were lent", e.available(), n)
	return e
}

// leasedFor returns a claim of a key whose lease does not end during a test.
func leasedFor(key, limits string) core.Claim {
	return core.Claim{Key: key, Limits: core.MustParseLimits(limits), Cost: 1, Lease: 10 * time.Second}
}

// lent returns a store, a claim of a key, and a lease of that key with 10 requests.
func lent(t *testing.T) (*fake, core.Claim, *entry) {
	s, c := newFake(t), leasedFor("k", "100/d")
	return s, c, s.lend(t, c, 10)
}

func (t *Table) placeOf(c core.Claim) (s *shard, hash uint64) {
	hash = t.hash(c.Rule, c.Key)
	return t.shard(hash), hash
}

// pass moves the clock of the leases on.
func (t *Table) pass(d time.Duration) { t.begun = t.begun.Add(-d) }

// toReturn returns how many requests of leases that are gone the next sweep is to return.
func (t *Table) toReturn() (n int64) {
	for _, u := range t.unused {
		n += int64(u.Cost)
	}
	return n
}

// due returns within what time a sweep is due; 0 if none is.
func (t *Table) due() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.every
}

// quiet waits until no refill is in flight.
func (f *fake) quiet() {
	for f.leases.RefillsInFlight() > 0 {
		time.Sleep(50 * time.Microsecond)
	}
}

// withEntry calls f with the only entry, of which no refill is in flight, while its shard is locked: sweeps go on after a test.
func (f *fake) withEntry(t *testing.T, do func(*entry)) {
	t.Helper()
	f.quiet()
	f.entry(t, do)
}

// entry calls f with the only entry, while its shard is locked.
func (f *fake) entry(t *testing.T, do func(*entry)) {
	t.Helper()
	found := false
	for i := range f.leases.shards {
		shard := &f.leases.shards[i]
		shard.mu.Lock()
		for _, e := range shard.entries {
			found = true
			do(e)
		}
		shard.mu.Unlock()
	}
	must.True(t, found, "nothing is leased")
}

func (f *fake) decide(t *testing.T, claims ...core.Claim) []core.Result {
	t.Helper()
	if r, ok := f.TakeLocal(claims, nil); ok {
		return r
	}
	return f.take(t, claims...)
}

// take decides claims as if TakeLocal had not.
func (f *fake) take(t *testing.T, claims ...core.Claim) []core.Result {
	t.Helper()
	return must.Get(f.Take(t.Context(), claims, nil))(t)
}

// TestOtherClaimsAgreeWithTheModel compares claims without a lease, which leases leave alone, and what the fake lends, with the model.
func TestOtherClaimsAgreeWithTheModel(t *testing.T) {
	testpass.Sequential(t)
	oracle.CompareRandom(t, func() oracle.Subject {
		f := newFake(t)
		return oracle.Subject{
			Store: f, Now: func() time.Time { return time.UnixMicro(f.now) }, Advance: func(d time.Duration) { f.now += d.Microseconds() },
			Lend: func(c core.Claim, want int64) (int64, error) {
				c.Cost = int(want)
				charged, _, err := processStore{f.server}.Lend(t.Context(), c, nil)
				return charged, err
			},
		}
	}, oracle.Options{Back: true, Lend: true}, testpass.Rounds(100))
}
