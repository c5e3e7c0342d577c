package redistest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/internal/must"
)

// slots is the number of hash slots of a cluster.
const slots = 16384

// A Cluster is a Redis Cluster of three masters and three replicas.
type Cluster struct {
	Nodes []*Server // masters first; node i+3 replicates node i
	ids   []string

	mu      sync.Mutex
	clients map[int]*redis.Client
}

// StartCluster starts a cluster, each node with further arguments, and waits until all nodes agree on it. A replica
// takes over from its master only with Failover. Otherwise, a master without CPU for some seconds would lose its slots.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{clients: make(map[int]*redis.Client)}
	for range 6 {
		c.Nodes = append(c.Nodes, Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "4000",
			"--cluster-replica-no-failover", "yes", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"}, args...)...))
	}
	c.meet(t)
	for i := range 3 {
		from, to := i*slots/3, (i+1)*slots/3-1
		must.Do(t, c.client(t, i).ClusterAddSlotsRange(context.Background(), from, to).Err())
	}
	for i := 3; i < 6; i++ {
		must.Do(t, c.client(t, i).ClusterReplicate(context.Background(), c.ids[i-3]).Err())
	}
	Wait(t, "the cluster to be whole", func() bool { return c.whole(t) })
	return c
}

// Failover returns arguments of StartCluster: a replica takes over once its master has been silent for some milliseconds.
func Failover(millis int) []string {
	return []string{"--cluster-replica-no-failover", "no", "--cluster-node-timeout", strconv.Itoa(millis)}
}

func (c *Cluster) meet(t testing.TB) {
	ctx := context.Background()
	for i, n := range c.Nodes {
		must.Do(t, c.client(t, i).Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		must.Do(t, c.client(t, 0).ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(n.Port())).Err())
		id := must.Get(c.client(t, i).Do(ctx, "cluster", "myid").Text())(t)
		c.ids = append(c.ids, id)
	}
	Wait(t, "the nodes to know each other", func() bool {
		for i := range c.Nodes {
			if !c.knows(c.client(t, i).ClusterNodes(ctx).Val()) {
				return false
			}
		}
		return true
	})
}

// knows reports whether a list of nodes contains all nodes of c, under their final names. A node that is still being met
// has another name.
func (c *Cluster) knows(nodes string) bool {
	for _, id := range c.ids {
		if !strings.Contains(nodes, id) {
			return false
		}
	}
	return true
}

// whole reports whether all nodes say that the cluster works, and all replicas are up to date.
func (c *Cluster) whole(t testing.TB) bool {
	ctx := context.Background()
	for i := range c.Nodes {
		cl := c.client(t, i)
		if !strings.Contains(cl.ClusterInfo(ctx).Val(), "cluster_state:ok") {
			return false
		}
		if i >= 3 && !strings.Contains(cl.Info(ctx, "replication").Val(), "master_link_status:up") {
			return false
		}
		if strings.Count(cl.ClusterNodes(ctx).Val(), "slave") != 3 {
			return false
		}
	}
	return true
}

func (c *Cluster) client(t testing.TB, i int) *redis.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[i] == nil {
		c.clients[i] = c.Nodes[i].Client(t)
	}
	return c.clients[i]
}

// Client returns a client of the cluster with the default options, closed when the test ends.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { client.Close() })
	return client
}

// Owner returns the index of the master that owns a slot.
func (c *Cluster) Owner(t testing.TB, slot int) int {
	t.Helper()
	for i := range 3 {
		for _, shard := range c.client(t, i).ClusterShards(context.Background()).Val() {
			if has(shard, slot) && ledBy(shard, c.Nodes[i]) {
				return i
			}
		}
	}
	t.Fatalf("no master has slot %d:\n%s", slot, c.views(t))
	return 0
}

// views returns each node's view of the cluster, for failure messages.
func (c *Cluster) views(t testing.TB) string {
	var b strings.Builder
	for i, n := range c.Nodes {
		fmt.Fprintf(&b, "%s, epoch %s:\n%s", n.Addr, c.epoch(t, i), c.client(t, i).ClusterNodes(context.Background()).Val())
	}
	return b.String()
}

func has(shard redis.ClusterShard, slot int) bool {
	return slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return r.Start <= int64(slot) && int64(slot) <= r.End })
}

func ledBy(shard redis.ClusterShard, master *Server) bool {
	return slices.ContainsFunc(shard.Nodes, func(n redis.Node) bool { return n.Role == "master" && n.Port == int64(master.Port()) })
}

// Move moves a slot from its master to another, key by key, as redis-cli does.
func (c *Cluster) Move(t testing.TB, slot, to int) {
	t.Helper()
	from := c.Owner(t, slot)
	if from == to {
		return
	}
	c.BeginMigration(t, slot, from, to)
	ctx := context.Background()
	src := c.client(t, from)
	for {
		keys := src.ClusterGetKeysInSlot(ctx, slot, 1).Val()
		if len(keys) == 0 {
			break
		}
		must.Do(t, src.Do(ctx, "migrate", "127.0.0.1", c.Nodes[to].Port(), keys[0], 0, 5000).Err())
	}
	c.EndMigration(t, slot, to)
}

// BeginMigration begins to migrate a slot from one master to another. From now on, new keys go to the other.
func (c *Cluster) BeginMigration(t testing.TB, slot, from, to int) {
	ctx := context.Background()
	must.Do(t, c.client(t, to).Do(ctx, "cluster", "setslot", slot, "importing", c.ids[from]).Err())
	must.Do(t, c.client(t, from).Do(ctx, "cluster", "setslot", slot, "migrating", c.ids[to]).Err())
}

// EndMigration assigns a slot to a master. No other master may have keys of the slot. It waits until all nodes know the
// owner and the same epoch. A node without the latest epoch would lose the next slot that it takes over to the slot's
// previous owner. A late message about the previous owner could undo that, and then no node would own the slot.
func (c *Cluster) EndMigration(t testing.TB, slot, to int) {
	ctx := context.Background()
	must.Do(t, c.client(t, to).Do(ctx, "cluster", "setslot", slot, "node", c.ids[to]).Err())
	for i := range 3 {
		must.Do(t, c.client(t, i).Do(ctx, "cluster", "setslot", slot, "node", c.ids[to]).Err())
	}
	Wait(t, "the nodes to agree about the slot", func() bool {
		epoch := c.epoch(t, to)
		for i := range c.Nodes {
			if c.epoch(t, i) != epoch || !c.sees(t, i, slot, to) {
				return false
			}
		}
		return true
	})
}

// sees reports whether node i knows that a master owns a slot.
func (c *Cluster) sees(t testing.TB, i, slot, owner int) bool {
	return slices.ContainsFunc(c.client(t, i).ClusterShards(context.Background()).Val(), func(shard redis.ClusterShard) bool {
		return has(shard, slot) && ledBy(shard, c.Nodes[owner])
	})
}

// epoch returns the latest epoch that a master knows of.
func (c *Cluster) epoch(t testing.TB, i int) string {
	_, info, _ := strings.Cut(c.client(t, i).ClusterInfo(context.Background()).Val(), "cluster_current_epoch:")
	epoch, _, _ := strings.Cut(info, "\r\n")
	return epoch
}
