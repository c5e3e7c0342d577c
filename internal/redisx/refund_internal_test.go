package redisx

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

// The script that refunds a charge reports the state after the refund, which includes later requests of others.
func TestRefundReportsTheStateAfterIt(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	claim := core.Claim{Key: "k", Limits: []core.Limit{core.PerDay(2), core.PerDay(9).Using(core.SlidingLog)}, Cost: 2}
	must.Get(s.Take(context.Background(), []core.Claim{claim}, nil))(t)
	claim.Cost = 1
	j := s.jobOf(t, claim)
	s.mustRun(t, j)
	j = s.decider.refund(context.Background(), j)
	if j.err != nil || j.usages[0].retry <= 0 || j.usages[1].retry != 0 || j.usages[0].Remaining != 0 || j.usages[1].Remaining != 7 {
		t.Errorf("%+v, %v: want a wait for the first, none for the second, and 0 and 7 to remain", j.usages, j.err)
	}
}

// A job that refunds its charge, because another job was denied, reports what remains after the refund.
func TestJobReportsWhatRemainsAfterItsRefund(t *testing.T) {
	for _, limits := range []string{"9/d", "9/d, 5 at once", "9/d;fixed-window", "9/d, 9/h;sliding-window"} {
		for _, hold := range []bool{true, false} {
			s, c := frozenStore(t), core.Claim{Key: "k", Limits: core.MustParseLimits(limits), Cost: 2, Hold: hold}
			if !hold && len(c.Limits) > 1 {
				c.Limits = c.Limits[:1]
			}
			j := s.jobOf(t, c)
			s.mustRun(t, j)
			before := append([]usage(nil), j.usages...)
			back := s.decider.refund(context.Background(), j)
			if back.err != nil || len(back.usages) != len(before) || back.held || !back.admitted() {
				t.Fatalf("%s, held: %v: %v, %+v", limits, hold, back.err, back.usages)
			}
			if got := back.usages[0].Remaining; got != 9 || before[0].Remaining != 7 {
				t.Errorf("%s, held: %v: %d remain after %d, want 9 after 7", limits, hold, got, before[0].Remaining)
			}
		}
	}
}

// A job that refunds its charge reports whether holds of others deny the same request.
func TestJobReportsHoldsOfOthersAfterItsRefund(t *testing.T) {
	s, c := frozenStore(t), core.Claim{Key: "k", Limits: core.MustParseLimits("9/d, 20/h"), Cost: 5, Hold: true}
	other := c
	other.Cost = 4
	j := s.jobOf(t, other)
	s.mustRun(t, j, s.jobOf(t, c))
	more := s.jobOf(t, c)
	s.mustRun(t, more)
	if more.admitted() || !more.held {
		t.Fatalf("%+v", more.usages)
	}
	back := s.decider.refund(context.Background(), more)
	if back.err != nil || !back.held || back.admitted() {
		t.Errorf("%v, held back: %v, %+v", back.err, back.held, back.usages)
	}
}

// While a slot migrates, the keys of a log and of its pair may be on two nodes. Then its settlement fails at once, and other keys of
// the same settlements are settled.
func TestSettlementInAMigratingSlot(t *testing.T) {
	s, h := frozenStore(t), new(migrating)
	s.decider.server.client.AddHook(h)
	bucket, log := core.Claim{Key: "k", Rule: "a", Limits: core.MustParseLimits("9/d")}, core.Claim{Key: "k", Rule: "b", Limits: core.MustParseLimits("9/d;sliding-log")}
	s.mustRun(t, s.jobOf(t, bucket, log))
	h.on = true
	var settlements []core.Settlement
	for _, c := range []core.Claim{bucket, log} {
		settlements = append(settlements, core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: stopped(), Cost: 1})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Settle(ctx, settlements); !hasCode(err, "TRYAGAIN") {
		t.Errorf("the settlement of a log: %v, want TRYAGAIN", err)
	}
	h.on = false
	if a, b := s.remains(t, bucket), s.remains(t, log); a != 9 || b != 8 {
		t.Errorf("%d remain of the bucket and %d of the log, want 9 and 8", a, b)
	}
}

// A migrating hook answers as a node of a Redis Cluster does in a slot that migrates: it runs no script with several keys.
type migrating struct {
	failing
	on bool
}

func (h *migrating) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); h.on && cmd.Name() == "evalsha" && args[2] != 1 {
			err := errorReply("TRYAGAIN Multiple keys request during rehashing of slot")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}
