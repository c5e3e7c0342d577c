package peers

import (
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/labstack/echo/v4/middleware"
	sethvargo "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// InMemory lists the peers that keep state in this process.
var InMemory = []func(Limit) *Store{Sethvargo, HTTPRate, Ulule, Throttled, Echo, XTime}

// Sethvargo is github.com/sethvargo/go-limiter.
func Sethvargo(l Limit) *Store {
	s := newSethvargo(l)
	store := shared("sethvargo", func(key string) bool {
		_, _, _, ok, err := s.Take(background, key)
		return ok && err == nil
	})
	store.Close = func() { _ = s.Close(background) }
	return store
}

// newSethvargo returns a store whose interval does not end while bench runs: with as many tokens as bench uses, it
// refills far too few of them.
func newSethvargo(l Limit) sethvargo.Store {
	return must(memorystore.New(&memorystore.Config{Tokens: uint64(l.Rate), Interval: max(l.Period, time.Hour)}))
}

// HTTPRate is github.com/go-chi/httprate without its headers: the calls and the comparison that its OnLimit makes.
func HTTPRate(l Limit) *Store {
	counter := httprate.NewLocalLimitCounter(l.Period)
	limiter := httprate.NewRateLimiter(l.Rate, l.Period, httprate.WithLimitCounter(counter))
	return shared("httprate", func(key string) bool {
		ok, used, err := limiter.Status(key)
		if !ok || err != nil || int(used+0.5)+1 > l.Rate {
			return false
		}
		return counter.IncrementBy(key, time.Now().UTC().Truncate(l.Period), 1) == nil
	})
}

// Ulule is github.com/ulule/limiter.
func Ulule(l Limit) *Store {
	s := ululemem.NewStore()
	r := ulule.Rate{Period: l.Period, Limit: int64(l.Rate)}
	return shared("ulule", func(key string) bool {
		c, err := s.Get(background, key, r)
		return !c.Reached && err == nil
	})
}

// Throttled is github.com/throttled/throttled with a map that has no bound, its faster one.
func Throttled(l Limit) *Store {
	s := newThrottled(l)
	return shared("throttled", func(key string) bool {
		limited, _, err := s.RateLimitCtx(background, key, 1)
		return !limited && err == nil
	})
}

func newThrottled(l Limit) *throttled.GCRARateLimiterCtx {
	q := throttled.RateQuota{MaxRate: throttled.PerDuration(l.Rate, l.Period), MaxBurst: l.Rate - 1}
	limiter := must(throttled.NewGCRARateLimiterCtx(must(throttledmem.NewCtx(0)), q))
	limiter.SetMaxCASAttemptsLimit(1_000_000) // so that a busy key does not lead to errors
	return limiter
}

// Echo is the memory store of github.com/labstack/echo's own limiter.
func Echo(l Limit) *Store {
	s := newEcho(l)
	return shared("echo", func(key string) bool {
		ok, err := s.Allow(key)
		return ok && err == nil
	})
}

func newEcho(l Limit) *middleware.RateLimiterMemoryStore {
	return middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
		Rate: rate.Limit(l.perSecond()), Burst: l.Rate, ExpiresIn: 2 * l.Period,
	})
}

// XTime is golang.org/x/time/rate in a sync.Map, as many write it by hand. It never forgets a key.
func XTime(l Limit) *Store {
	var m sync.Map
	return shared("x/time/rate", func(key string) bool {
		v, ok := m.Load(key)
		if !ok {
			v, _ = m.LoadOrStore(key, rate.NewLimiter(rate.Limit(l.perSecond()), l.Rate))
		}
		return v.(*rate.Limiter).Allow()
	})
}
