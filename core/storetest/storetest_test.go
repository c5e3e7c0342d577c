package storetest_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

// A noisy store is the exact model, on a machine on which each call takes some time, up to stall, and sleeps last longer.
type noisy struct {
	mu    sync.Mutex
	model oracle.Model
	now   time.Time
	stall time.Duration
	rand  *rand.Rand
}

// delay returns how long a call takes: one of four stalls.
func (n *noisy) delay() time.Duration {
	if n.rand.IntN(4) > 0 {
		return n.stall / 1000
	}
	return n.stall
}

func (n *noisy) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return dst, err
		}
	}
	n.now = n.now.Add(n.delay())
	return append(dst, n.model.Take(n.now.UnixMicro(), claims)...), nil
}

func (n *noisy) Settle(_ context.Context, settlements []core.Settlement) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range settlements {
		if err := settlements[i].Validate(); err != nil {
			return err
		}
	}
	n.now = n.now.Add(n.delay())
	return n.model.Settle(n.now.UnixMicro(), settlements)
}

func (n *noisy) Reset(_ context.Context, pairs []core.Pair) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = n.now.Add(time.Microsecond) // else what is charged next would have the same instant
	n.model.Reset(n.now.UnixMicro(), pairs)
	return nil
}

func TestOnAnyMachine(t *testing.T) {
	testpass.Thorough(t)
	for name, noise := range map[string]struct{ stall, oversleep time.Duration }{
		"busy":     {150 * time.Microsecond, 20 * time.Millisecond},
		"stalling": {70 * time.Millisecond, 120 * time.Millisecond},
		"hopeless": {600 * time.Millisecond, 3 * time.Second}, // 200 calls take some 30 s, and holds end after 60 s
	} {
		t.Run(name, func(t *testing.T) {
			var store *noisy
			var total time.Duration
			random := rand.New(rand.NewPCG(29, 4))
			storetest.Run(t, storetest.Harness{
				New: func(*testing.T) core.Store {
					store = &noisy{now: time.Now().Truncate(time.Microsecond), stall: noise.stall, rand: random}
					return store
				},
				Advance: func(d time.Duration) {
					total += d
					store.now = store.now.Add(d + noise.oversleep)
				},
			})
			expect.True(t, total < 20*time.Minute, "the suite let %v pass", total)
		})
	}
}
