package redisx_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"github.com/spillgate/spillgate/internal/testpass"
)

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

func TestRareTimelinesOnRedis(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRare(t, onRedis(t))
}
