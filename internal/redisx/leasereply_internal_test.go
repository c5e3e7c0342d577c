package redisx

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// Something is missing until the store says that nothing is.
func TestAWaitIsAtLeastAMicrosecond(t *testing.T) {
	for at, want := range map[int64]time.Duration{0: 1000, 100: 1000, 101: 1000, 1100: 1000, 1101: 2000, 5100: 5000} {
		if got := until(at, 100); got != want {
			t.Errorf("from 100 until %d: %v, want %v", at, got, want)
		}
	}
	if got := until(later(1, 1<<62), 1); got < 24*365*time.Hour {
		t.Errorf("a wait of for ever is %v", got)
	}
}

// What remains is by the latest answer of the store, and within an instant by the one that says least.
func TestWhatRemainsIsByTheLatestAnswer(t *testing.T) {
	const length = int64(time.Second)
	at := func(micros int64, remaining ...int) (results []core.Result) {
		for _, n := range remaining {
			results = append(results, core.Result{At: time.UnixMicro(micros), Remaining: n, RefillAfter: time.Second, ResetAfter: time.Minute})
		}
		return results
	}
	e := &leaseEntry{terms: &terms{length: length}}
	e.hear(at(500, 1, 1), 0)
	e.credit(0, 100, length, 5)
	e.setUsages([]usage{{Usage: algorithm.Usage{Remaining: 50}}, {Usage: algorithm.Usage{Remaining: 70}}}, 0)
	for i, row := range []struct {
		at            int64
		remain        int
		first, second uint32
	}{{99, 10, 50, 70}, {100, 60, 50, 70}, {100, 50, 50, 70}, {100, 49, 49, 59}, {101, 60, 60, 70}} {
		e.hear(at(row.at, row.remain, row.remain+10), 5000)
		if e.after(0).stored != row.first || e.after(1).stored != row.second {
			t.Errorf("row %d: %d and %d remain, want %d and %d", i, e.after(0).stored, e.after(1).stored, row.first, row.second)
		}
	}
	if want := (after{60, 5000 + int64(time.Second), 5000 + int64(time.Minute)}); e.after(0) != want {
		t.Errorf("got %v, want %v", e.after(0), want)
	}
}

// A lateReply keeps back the reply of one call.
type lateReply struct {
	calls, late atomic.Int32
	free        chan struct{}
}

func (h *lateReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *lateReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *lateReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if len(cmd.Args()) > 1 && fmt.Sprint(cmd.Args()[1]) == theScript.sha && h.calls.Add(1) == h.late.Load() {
			<-h.free
		}
		return err
	}
}

// While the reply of a grant is on its way the store decides other requests. These are missing from what it said of the grant.
func TestAnswersThatOvertakeAGrantCount(t *testing.T) {
	for name, step := range map[string]time.Duration{"within an instant": 0, "later": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			server := miniredis.RunT(t)
			now := time.Unix(1_800_000_000, 0)
			server.SetTime(now)
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			t.Cleanup(func() { client.Close() })
			h := &lateReply{free: make(chan struct{})}
			client.AddHook(h)
			s := New(client, Options{Prefix: "p"})
			t.Cleanup(s.stopSweeps)
			c := core.Claim{Key: "k", Limits: core.MustParseLimits("1000000/1000d, 2000000/2000d"), Lease: 10 * time.Second}
			s.takeOne(t, c)
			h.late.Store(h.calls.Load() + 1) // that of the first grant
			var second sync.WaitGroup
			second.Go(func() { s.takeOne(t, c) })
			for h.calls.Load() < h.late.Load() {
				time.Sleep(50 * time.Microsecond)
			}
			s.entry(t, func(e *leaseEntry) { e.late = true }) // so that others do not wait for it
			const overtaking = 3
			for range overtaking {
				server.SetTime(now.Add(step))
				now = now.Add(step)
				s.takeOne(t, c)
			}
			close(h.free)
			second.Wait()
			s.withEntry(t, func(*leaseEntry) {})
			r, ok := s.TakeLocal([]core.Claim{c}, nil)
			if !ok || r[0].Remaining != 1_000_000-overtaking-3 || r[1].Remaining != 2_000_000-overtaking-3 {
				t.Errorf("from a lease: %v; got %+v", ok, r)
			}
		})
	}
}
