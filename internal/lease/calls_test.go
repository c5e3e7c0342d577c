package lease

import (
	"context"
	"fmt"
	"math/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

func TestAKeyThatIsAskedForOnceTakesOneCall(t *testing.T) {
	s := newFake(t)
	for i := range 50 {
		s.decide(t, leasedFor(fmt.Sprint(i), "100/d"))
	}
	if s.quiet(); s.calls.Load() != 50 || s.LeaseStats().Keys != 0 {
		t.Errorf("%d calls for 50 keys, %d of them leased", s.calls.Load(), s.LeaseStats().Keys)
	}
}

func TestABusyKeyTakesFewCalls(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "1000000/s")
	for range 10_000 {
		s.decide(t, c)
	}
	s.quiet()
	expect.AtMost(t, s.calls.Load(), 200, "calls for 10,000 requests")
}

// A distant store admits everything, and counts what it is asked to do.
type distant struct{ requests, refills, returns atomic.Int64 }

const distance = 500 * time.Microsecond

func (s *distant) Take(_ context.Context, claims []core.Claim, _ []core.Settlement, dst []core.Result) ([]core.Result, time.Time, error) {
	time.Sleep(distance)
	for i := range claims {
		s.requests.Add(1)
		dst = append(dst, core.Result{Allowed: true, Limit: claims[i].Limits[0], Remaining: 1000})
	}
	return dst, time.Time{}, nil
}

func (s *distant) Lend(_ context.Context, loan core.Claim, _ []core.Settlement) (int64, []core.Result, error) {
	time.Sleep(distance)
	s.refills.Add(1)
	return int64(loan.Cost), make([]core.Result, len(loan.Limits)), nil
}

func (s *distant) Refund(_ context.Context, unused []core.Settlement) []error {
	time.Sleep(distance)
	s.returns.Add(int64(len(unused)))
	return make([]error, len(unused))
}

// In TestKeysByZipfTakeLittleWork, 64 callers ask for keys, most of them only a few times within a lease. Refills that nobody
// uses, and requests to the store beside a refill, would cost the store more than the leases save.
func TestKeysByZipfTakeLittleWork(t *testing.T) {
	for pause, most := range map[time.Duration]float64{500 * time.Microsecond: 0.24, time.Millisecond: 0.31, 4 * time.Millisecond: 0.46} {
		synctest.Test(t, func(t *testing.T) {
			s := new(distant)
			asked := askByZipf(t, New(s), pause)
			requests, refills, returns := s.requests.Load(), s.refills.Load(), s.returns.Load()
			expect.AtMost(t, float64(requests+refills+returns)/float64(asked), most, "a pause of %v: %d requests take %d of the store, %d refills and %d returns: of them", pause, asked, requests, refills, returns)
		})
	}
}

// askByZipf runs 64 callers for a second, each with pauses of that mean, and waits until the leases have ended. It returns
// how often they asked.
func askByZipf(t *testing.T, table *Table, pause time.Duration) int64 {
	var asked atomic.Int64
	var callers sync.WaitGroup
	begun := time.Now()
	for i := range 64 {
		random := rand.New(rand.NewSource(int64(i)))
		keys := rand.NewZipf(random, 1.1, 1, 3000-1)
		callers.Go(func() {
			for ; time.Since(begun) < time.Second; time.Sleep(time.Duration(random.ExpFloat64() * float64(pause))) {
				c := core.Claim{Key: strconv.FormatUint(keys.Uint64(), 10), Limits: core.MustParseLimits("1000000/s"), Lease: 100 * time.Millisecond}
				if _, ok := table.TakeLocal([]core.Claim{c}, nil); !ok {
					_, _, err := table.Take(t.Context(), []core.Claim{c}, nil)
					expect.NoError(t, err, "unexpected error")
				}
				asked.Add(1)
			}
		})
	}
	callers.Wait()
	time.Sleep(time.Second)
	return asked.Load()
}
