package processes

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// leaseFor returns how long processes lease: the environment variable SPILLGATE_LEASE_FOR, such as 60s, or byDefault.
func leaseFor(t *testing.T, byDefault time.Duration) time.Duration {
	text := os.Getenv("SPILLGATE_LEASE_FOR")
	if text == "" {
		return byDefault
	}
	return must.Get(time.ParseDuration(text))(t)
}

// fight has n processes request twice the limit, sometimes kills one and starts another, and returns the crew. In the
// meantime, it calls meanwhile, unless that is nil.
func fight(t *testing.T, l leaser, n int, d time.Duration, meanwhile func(*crew)) *crew {
	c := &crew{t: t, leaser: l}
	members := make([]*member, n)
	for i := range members {
		members[i] = c.start()
	}
	t.Cleanup(func() {
		for _, m := range members {
			m.kill()
		}
	})
	since := time.Now()
	r := rand.New(rand.NewPCG(18, uint64(n)))
	for end := since.Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(200+r.IntN(1200)) * time.Millisecond)
		i := r.IntN(n)
		members[i].kill()
		members[i] = c.start()
		if meanwhile != nil && time.Since(since) > d/3 {
			meanwhile(c)
			end, meanwhile = time.Now().Add(d/2), nil
		}
	}
	for _, m := range members {
		m.stop()
	}
	return c
}

// grid is the resolution at which spans begin.
const grid = 10_000 // microseconds

// checkBound fails the test if in some span of time t the crew has admitted more than capacity + rate·(t + lease), and the given extra.
func (c *crew) checkBound(besides int) {
	c.t.Helper()
	limit, lease := core.MustParseLimits(c.leaser.Limit)[0], c.leaser.Lease.Microseconds()
	slices.SortFunc(c.turns, func(a, b turn) int { return int(a.ended - b.ended) })
	first := c.turns[0].begun
	for _, t := range c.turns {
		first = min(first, t.begun)
	}
	for start := first / grid * grid; start < c.turns[len(c.turns)-1].ended; start += grid {
		sum := 0
		for _, t := range c.turns {
			if t.begun < start {
				continue
			}
			sum += t.admitted
			span := float64(t.ended-start+lease) / float64(limit.Period.Microseconds())
			if most := float64(limit.Capacity()+besides) + float64(limit.Rate)*span; float64(sum) > most {
				c.t.Errorf("%d were admitted in %v, want at most %.0f", sum, time.Duration(t.ended-start)*time.Microsecond, most)
				return
			}
		}
	}
}

// TestLeasesOfCrashingProcesses has eight processes request one key for 5 s.
func TestLeasesOfCrashingProcesses(t *testing.T) {
	t.Parallel()
	l := leaser{Addrs: []string{redistest.Start(t).Addr}, Limit: "1000/s;burst=500", Lease: 100 * time.Millisecond, Demand: 250}
	fight(t, l, 8, leaseFor(t, 5*time.Second), nil).checkBound(0)
}

func TestLeasesOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l := leaser{Limit: "500/s;burst=200", Lease: 100 * time.Millisecond, Demand: 333}
	for _, n := range cluster.Nodes {
		l.Addrs = append(l.Addrs, n.Addr)
	}
	fight(t, l, 3, 4*time.Second, nil).checkBound(0)
}

// TestLeasesThroughAFailover kills the master. Requests whose charges it had not sent to its replica are admitted
// again, at most one capacity. Then the replica decides.
func TestLeasesThroughAFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	l := leaser{Addrs: s.Addrs, Master: redistest.MasterName, Limit: "500/s;burst=200", Lease: 100 * time.Millisecond, Demand: 333}
	c := fight(t, l, 3, 9*time.Second, func(c *crew) {
		s.Master.Kill()
		replica := s.Replica.Client(t)
		redistest.Wait(t, "the replica to take over", func() bool {
			return strings.Contains(replica.Info(context.Background(), "replication").Val(), "role:master")
		})
		again := time.Now().Add(l.Lease)
		redistest.Wait(t, "something to be admitted after the failover", func() bool { return c.admittedSince(again) })
	})
	c.checkBound(200)
}
