package redisx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/breaker"
)

// A slowClient is a server that takes 20 ms for a batch, denies all takes and makes all settlements. While it hangs it
// answers nothing.
type slowClient struct {
	*redis.Client
	hangs          atomic.Bool
	takes, settles atomic.Int64
}

func (c *slowClient) Process(_ context.Context, cmd redis.Cmder) error {
	run, ok := cmd.(*once)
	if !ok {
		return io.EOF
	}
	time.Sleep(20 * time.Millisecond)
	if c.hangs.Load() {
		time.Sleep(time.Minute)
		cmd.SetErr(io.EOF)
		return io.EOF
	}
	keys := cmd.Args()[2].(int)
	args, plan, reply := cmd.Args()[3+keys:], "", []int64{time.Now().UnixMicro(), 0}
	for ; len(args) > 0; args = args[2:] { // a plan, empty if it is the one before, and words
		if text := args[0].(string); text != "" {
			plan = text
		}
		if strings.HasPrefix(plan, "t "+strconv.Itoa(1<<6|int(adjust)<<2|1)+" ") {
			reply = append(reply, rare*-algorithm.MaxExact, 0)
			c.settles.Add(1)
		} else {
			reply = append(reply, 36e6, 100*3600e6, 0)
			c.takes.Add(1)
		}
	}
	run.SetVal(textOf(reply))
	return nil
}

// slowStore returns a store on a slowClient, and a limiter with a rule that fails open.
func slowStore(t *testing.T) (*slowClient, *Store, *core.Limiter) {
	c, s := newSlowClient(t)
	return c, s, withRule(s, core.FailOpen)
}

func newSlowClient(t *testing.T) (*slowClient, *Store) {
	c := &slowClient{Client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})}
	t.Cleanup(func() { c.Close() })
	return c, New(c, Options{Prefix: "p"})
}

// withRule returns a limiter on s with a rule whose local limits admit 100 requests.
func withRule(s *Store, mode core.FailureMode) *core.Limiter {
	rule := core.MustParseLimits("100/h")[0].By(func(*http.Request) (string, error) { return "k", nil })
	rule.OnFailure = mode
	return core.Must(core.New([]core.Rule{rule}, core.WithStore(s)))
}

// flood makes n requests at once and returns how many are admitted, and how many of them because the store failed.
func flood(t *testing.T, l *core.Limiter, n int) (admitted, failed int64) {
	var callers sync.WaitGroup
	var admits, fails atomic.Int64
	for range n {
		callers.Go(func() {
			d, err := l.Take(context.Background(), core.Claim{Key: "k"})
			if err != nil {
				t.Error(err)
			}
			if d.Allowed {
				admits.Add(1)
			}
			if d.Degraded != nil && !errors.Is(d.Degraded, breaker.ErrTooMany) {
				fails.Add(1)
			}
		})
	}
	callers.Wait()
	return admits.Load(), fails.Load()
}

// A flood that a slow server cannot decide in time is an overload. The breaker stays closed, whatever the failure mode, and the
// server keeps deciding.
func TestLongQueueIsAnOverload(t *testing.T) {
	for name, mode := range map[string]core.FailureMode{"local": core.FailLocal, "open": core.FailOpen, "closed": core.FailClosed} {
		t.Run(name, func(t *testing.T) { testLongQueue(t, mode) })
	}
}

func testLongQueue(t *testing.T, mode core.FailureMode) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newSlowClient(t)
		l := withRule(s, mode)
		var all int64
		for i, n := range []int{20_000, 4000, 4000, 4000, 20_000} {
			before := c.takes.Load()
			admitted, failed := flood(t, l, n)
			if all += admitted; failed > 0 || all > 100 {
				t.Fatalf("flood %d: %d requests were admitted so far, and %d failed", i, all, failed)
			}
			if n := c.takes.Load() - before; n < 2*maxLoad {
				t.Errorf("flood %d: the server decided %d requests, want two full runs at least", i, n)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if h := l.StoreHealth(); h.Down || h.Err != nil || h.Overloads < 20_000 {
			t.Errorf("%+v after overloads", h)
		}
	})
}

// If the server hangs in the middle of a flood, the breaker opens as it does without one.
func TestHangDuringAnOverloadIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, l := slowStore(t)
		flood(t, l, 20_000)
		c.hangs.Store(true)
		begun := time.Now()
		for !l.StoreHealth().Down {
			if flood(t, l, 5000); time.Since(begun) > 250*time.Millisecond {
				t.Fatalf("%+v after %v without an answer", l.StoreHealth(), time.Since(begun))
			}
		}
		time.Sleep(2 * time.Minute) // until the calls in flight end
	})
}

// A queue that is too long for takes is not too long for settlements.
func TestSettlementsAreNotTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, l := slowStore(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { flood(t, l, 20_000) })
			synctest.Wait()
			for range 300 {
				all.Go(func() {
					st := core.Settlement{Key: "k", Limits: core.MustParseLimits("100/h"), At: time.Now(), Cost: 2, Final: 1}
					if err := s.Settle(ctx, []core.Settlement{st}); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(25 * time.Millisecond)
		}
		all.Wait()
		if n := c.settles.Load(); n != 900 {
			t.Errorf("%d settlements were made, want 900", n)
		}
		if synctest.Wait(); !s.isIdle() {
			t.Error("calls are left")
		}
	})
}
