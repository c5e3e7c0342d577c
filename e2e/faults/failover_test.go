package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

type failover struct {
	store core.Store
	keys  []string
	pair  [2]*redistest.Server // the master and its replica, which may have changed places

	named func(master *redistest.Server) bool // reports whether clients can know of a new master
}

const failoverCapacity = 50

// run kills the master while callers charge keys, and checks when Redis decides again and what was admitted.
func (f *failover) run(t *testing.T, log journal) {
	done := make(chan struct{})
	var guards []*guard
	admitted := make(map[string]func() int)
	for mode := range modes {
		g := newGuard(t, f.store, mode, slowly(failoverCapacity))
		g.comesBack(f.keys...)
		guards = append(guards, g)
		for _, key := range f.keys {
			admitted[mode+" "+key] = g.callers(1, 50*time.Millisecond, key, done)
		}
	}
	time.Sleep(100 * time.Millisecond)
	replica := f.killMaster(t, guards[0])
	redistest.Wait(t, "the replica to take over", func() bool { return f.named(replica) })
	taken := time.Now()
	each(guards, func(g *guard) { g.decidesAgain(f.keys...) })
	expect.AtMost(t, time.Since(taken), tooLong, "Redis decided again after the replica had taken over")
	each(guards, func(g *guard) { g.comesBack(f.keys...) })
	close(done)
	f.check(t, guards, admitted)
	down, back := log.count(isDown), log.count(isBack)
	expect.True(t, down == back, "%d times down and %d times back in the log", down, back)
}

// killMaster kills the master and waits until g notices. It returns the replica.
func (f *failover) killMaster(t *testing.T, g *guard) (replica *redistest.Server) {
	t.Helper()
	var clients [2]*redis.Client
	for i, s := range f.pair {
		clients[i] = s.Client(t)
	}
	redistest.Wait(t, "one of two to be the master", func() bool { return isMaster(clients[0]) != isMaster(clients[1]) })
	before, master := g.degraded.Load(), 0
	if isMaster(clients[1]) {
		master = 1
	}
	f.pair[master].Kill()
	redistest.Wait(t, "the outage", func() bool { return g.degraded.Load() > before })
	return f.pair[1-master]
}

func isMaster(c *redis.Client) bool {
	return strings.Contains(c.Info(context.Background(), "replication").Val(), "role:master")
}

// check checks how many requests of each key were admitted. Charges that the master had not sent to its replica are lost: one
// capacity at most. FailLocal adds one of this process.
func (f *failover) check(t *testing.T, guards []*guard, admitted map[string]func() int) {
	most := map[string]int{"local": 3 * failoverCapacity, "open": 1 << 30, "closed": 2 * failoverCapacity}
	for _, g := range guards {
		for _, key := range f.keys {
			if n := admitted[g.rule+" "+key](); n > most[g.rule] || n == 0 {
				t.Errorf("%s: %s was admitted %d times, want some and at most %d", g.rule, key, n, most[g.rule])
			}
		}
		g.wantBounded()
	}
}

func TestMasterOfAClusterDies(t *testing.T) {
	wantNoLeaks(t)
	log := journal{expect.KeepLog(t)}
	cluster := redistest.StartCluster(t, redistest.Failover(1000)...)
	f := failover{store: redisstore.New(cluster.Client(t))}
	for i := range 6 {
		f.keys = append(f.keys, fmt.Sprint("k", i))
	}
	slot := cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), "{k0}").Val()
	owner := cluster.Owner(t, int(slot))
	f.pair = [2]*redistest.Server{cluster.Nodes[owner], cluster.Nodes[owner+3]}
	clients := map[*redistest.Server]*redis.Client{f.pair[0]: f.pair[0].Client(t), f.pair[1]: f.pair[1].Client(t)}
	f.named = func(master *redistest.Server) bool { return isMaster(clients[master]) }
	f.run(t, log)
}

func TestMasterBehindSentinelDies(t *testing.T) {
	wantNoLeaks(t)
	log := journal{expect.KeepLog(t)}
	s := redistest.StartSentinel(t)
	f := failover{store: redisstore.New(s.Client(t)), keys: []string{"k"}, pair: [2]*redistest.Server{s.Master, s.Replica}, named: s.Names}
	f.run(t, log)
}

// A Redis with 200 callers is killed and comes back with its state. No caller waits for the client, and no key gets more than the limits of
// the store and of this process together.
func TestKilledUnder200Callers(t *testing.T) {
	const capacity = 1000
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t, "--appendonly", "yes", "--appendfsync", "no") // else a slow disk would keep it from writing before it replies
			g := newGuard(s, s.store, mode, slowly(capacity))
			done := make(chan struct{})
			wait := g.callers(200, 100*time.Millisecond, "k", done)
			redistest.Wait(t, "the callers to get going", func() bool { return g.seen.Load() > 400 })
			s.server.Kill()
			redistest.Wait(t, "500 degraded decisions in an outage", func() bool { return g.degraded.Load() >= 500 && g.StoreHealth().Down })
			s.server.Restart(t)
			g.comesBack("k")
			seen := g.seen.Load()
			redistest.Wait(t, "more decisions", func() bool { return g.seen.Load() > seen+200 })
			close(done)
			admitted := wait()
			byLocal := min(capacity, int(g.StoreHealth().Overloads)) // local limits decide an overload in each mode
			bound := map[string]int{"local": 2 * capacity, "open": capacity + int(g.degraded.Load()), "closed": capacity + byLocal}[mode]
			expect.True(t, admitted <= bound && admitted != 0, "%d requests were admitted, want some and at most %d", admitted, bound)
			expect.AtMost(t, used(t, s.direct, mode, "k", slowly(capacity)), capacity, "requests that Redis holds against the key")
			s.log.wantTurns(t, 4)
			g.wantBounded()
		})
	}
}
