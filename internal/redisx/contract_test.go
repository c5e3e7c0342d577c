package redisx_test

import (
	"cmp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"github.com/spillgate/spillgate/internal/testpass"
)

// options configure the stores in these tests.
var options = redisx.Options{Prefix: "spillgate"}

func TestMiniredis(t *testing.T) {
	testpass.Sequential(t)
	var server *miniredis.Miniredis
	var now time.Time
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) core.Store {
			server, now = miniredis.RunT(t), time.Now()
			server.SetTime(now)
			client := redistest.NewClient(t, &redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute}) // miniredis is slow under -race
			return redisx.New(client, options)
		},
		Quick: true,
		Advance: func(d time.Duration) {
			now = now.Add(d)
			server.SetTime(now)
			server.FastForward(d)
		},
	})
}

func TestRedis(t *testing.T) { runDriven(t, redistest.Start(t).Client(t)) }

func TestCluster(t *testing.T) {
	t.Parallel()
	runDriven(t, redistest.StartCluster(t).Client(t))
}

func TestRing(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}})
	t.Cleanup(func() { ring.Close() })
	runDriven(t, ring)
}

// runDriven runs the contract on servers that decide at the instants of a clock which the test drives.
func runDriven(t *testing.T, client redis.UniversalClient) {
	var now atomic.Pointer[time.Time] // a call that outlives its context may still read it
	set := func(at time.Time) { now.Store(&at) }
	_, single := client.(*redis.Client)
	storetest.Run(t, storetest.Harness{
		Apart: !single,
		New: func(t *testing.T) core.Store {
			flush(t, client)
			t.Cleanup(func() { allExpire(t, client) })
			set(time.Now())
			store := redisx.New(client, options)
			store.SetClock(func() time.Time { return *now.Load() })
			return store
		},
		Quick:   true,
		Advance: func(d time.Duration) { set(now.Load().Add(d)) },
	})
}

// onMiniredis returns a function that returns a store on an empty miniredis.
func onMiniredis(t *testing.T) func() oracle.Subject {
	store, server := frozen(t)
	return func() oracle.Subject {
		server.FlushAll()
		now := start
		set := func() {
			server.SetTime(now)
			store.SetLocal(now)
		}
		set()
		return oracle.Subject{Store: store, Lend: store.ChargeAhead, Now: func() time.Time { return now }, Advance: func(d time.Duration) {
			now = now.Add(d)
			set()
		}}
	}
}

// onRedis returns a function that returns a store on an empty server, which keeps its keys. The script gets the instant from the store.
func onRedis(t *testing.T) func() oracle.Subject {
	client := redistest.Start(t, redistest.KeepKeys...).Client(t)
	return func() oracle.Subject {
		flush(t, client)
		store, now := redisx.New(client, options), start
		store.SetClock(func() time.Time { return now })
		store.SetLocal(now)
		return oracle.Subject{Store: store, Lend: store.ChargeAhead, Now: func() time.Time { return now }, Advance: func(d time.Duration) {
			now = now.Add(d)
			store.SetLocal(now)
		}}
	}
}

func TestRandomTimelinesOnMiniredis(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRandom(t, onMiniredis(t), oracle.Options{Back: true, Lend: true}, testpass.Rounds(300))
}

func TestRareTimelinesOnMiniredis(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRare(t, onMiniredis(t))
}

func TestRandomTimelinesOnRedis(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRandom(t, onRedis(t), oracle.Options{Back: true, Lend: true}, testpass.Rounds(1000))
}

// A refund leaves traces of other tiers and of turns, so each limit has one tier, and no request waits. More seeds would find an earlier
// charge of which less can be given back once a denied request was charged and refunded.
func TestRandomTimelinesInParts(t *testing.T) {
	testpass.Thorough(t)
	open := onRedis(t)
	for seed := range 300 {
		steps, tiers := oracle.Random(uint64(seed), oracle.Options{Lend: true}), make(map[core.Limit]core.Limit)
		for i, step := range steps {
			for k := range step.Claims {
				c := &step.Claims[k]
				c.Key, c.MaxWait = string("xyz"[(seed+i+k)%3]), 0
				for n, l := range c.Limits {
					state := core.Limit{Algorithm: l.Algorithm, Period: l.Period, Calendar: l.Calendar}
					tiers[state] = cmp.Or(tiers[state], l)
					c.Limits[n] = tiers[state]
				}
			}
		}
		oracle.Compare(t, func() oracle.Subject {
			s := open()
			s.Store.(*redisx.Store).DecideInParts(seed%2 == 0)
			return s
		}, steps)
	}
}

func TestRareTimelinesOnRedis(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRare(t, onRedis(t))
}
