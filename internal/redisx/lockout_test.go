package redisx_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// An address that has used up its limit sends logins for another user, whose key is in another slot, from 64 connections. These
// denied requests must not make the server deny the user's own requests.
func TestDeniedClientKeepsNoOtherIdentityCharged(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, size := range []int{0, 100} {
		flush(t, cluster.Client(t))
		o := options
		o.DenyCache = size
		s := redisx.New(cluster.Client(t), o)
		attacker := core.Claim{Rule: "ip", Key: "ip:192.0.2.1", Limits: core.MustParseLimits("5/1000d;fixed-window")}
		victim := core.Claim{Rule: "ip", Key: "ip:203.0.113.9", Limits: core.MustParseLimits("1000/1000d;fixed-window")}
		login := core.Claim{Rule: "login", Key: "user:victim", Limits: core.MustParseLimits("40/1000d;fixed-window")}
		for range 6 {
			take(t, s, attacker)
		}
		stop := attack(t, s, attacker, login)
		served := 0
		for range 50 {
			if allowed(take(t, s, victim, login)) {
				served++
			}
			time.Sleep(time.Millisecond)
		}
		if passed := stop(); served < 38 || served > 40 || passed > 0 {
			t.Errorf("deny cache of %d: the victim was served %d times of 40, the attacker %d times of 0", size, served, passed)
		}
	}
}

// attack sends requests of 64 callers until stop is called, which returns how many were admitted. It returns once many
// are denied.
func attack(t *testing.T, s *redisx.Store, claims ...core.Claim) (stop func() (passed int64)) {
	ctx, cancel := context.WithCancel(context.Background())
	var attackers sync.WaitGroup
	var denied, passed atomic.Int64
	for range 64 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				results, ok := s.TakeLocal(claims, nil)
				var err error
				if !ok {
					results, err = s.Take(context.Background(), claims, nil)
				}
				switch {
				case err != nil:
					t.Error(err)
				case allowed(results):
					passed.Add(1)
				default:
					denied.Add(1)
				}
			}
		})
	}
	redistest.Wait(t, "the attack to begin", func() bool { return denied.Load() > 200 })
	return func() int64 {
		cancel()
		attackers.Wait()
		return passed.Load()
	}
}

func TestAdmittingPeekIsFollowedByACharge(t *testing.T) {
	t.Parallel()
	s := redisx.New(redistest.StartCluster(t).Client(t), options)
	a, b := claimOf("a", core.MustParseLimits("2/h")...), claimOf("b", core.MustParseLimits("9/h")...)
	for range 3 {
		take(t, s, a, b)
	}
	must.Do(t, s.Reset(context.Background(), pairsOf(a)))
	if r := take(t, s, a, b); !allowed(r) || r[0].Remaining != 1 || r[1].Remaining != 6 {
		t.Errorf("after a reset: %+v, want it charged", r)
	}
	b.Peek = true
	if r := take(t, s, b); r[0].Remaining != 6 {
		t.Errorf("%+v, want 6 remaining", r)
	}
}
