package redisstore_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// documentedRights returns the rights that docs/redis.md lists for every user, and the rights that a Cluster needs as well.
func documentedRights(t *testing.T) (single, cluster []string) {
	t.Helper()
	_, text, _ := strings.Cut(string(must.Get(os.ReadFile("../../docs/redis.md"))(t)), "The user of an ACL needs")
	text, _, _ = strings.Cut(text, "\n\n")
	everywhere, onCluster, ok := strings.Cut(text, "On a Cluster")
	rights := regexp.MustCompile(`(?:^|[\s` + "`" + `])([+~&][^\s` + "`" + `]+)`)
	for _, m := range rights.FindAllStringSubmatch(everywhere, -1) {
		single = append(single, m[1])
	}
	for _, m := range rights.FindAllStringSubmatch(onCluster, -1) {
		cluster = append(cluster, m[1])
	}
	must.True(t, ok && len(single) >= 10 && len(cluster) != 0, "docs/redis.md lists the rights %q and, on a Cluster, %q", single, cluster)
	return single, cluster
}

// permit makes a user with these rights and no other.
func permit(t *testing.T, admin *redis.Client, rights []string) {
	t.Helper()
	args := []any{"acl", "setuser", "limits", "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	must.Do(t, admin.Do(context.Background(), args...).Err())
}

// The rights that docs/redis.md lists are sufficient for every call of a store.
func TestDocumentedRightsSuffice(t *testing.T) {
	single, more := documentedRights(t)
	t.Run("single server", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		permit(t, server.Client(t), single)
		client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "limits", Password: "secret"})
		defer client.Close()
		useEverything(t, client)
		wantNothingDenied(t, server)
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t)
		o := &redis.ClusterOptions{Username: "limits", Password: "secret"}
		for _, node := range cluster.Nodes {
			permit(t, node.Client(t), append(single[:len(single):len(single)], more...))
			o.Addrs = append(o.Addrs, node.Addr)
		}
		client := redis.NewClusterClient(o)
		defer client.Close()
		useEverything(t, client)
		const identity = "user:migrating"
		slot := int(cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), "{"+identity+"}").Val())
		from := cluster.Owner(t, slot)
		cluster.BeginMigration(t, slot, from, (from+1)%3)
		claim := core.Claim{Rule: "r", Key: identity, Limits: core.MustParseLimits("5/h")}
		expect.NoError(t, expect.ErrorOf(redisstore.New(client).Take(context.Background(), []core.Claim{claim}, nil)), "take from a slot that migrates")
		wantNothingDenied(t, cluster.Nodes...)
	})
}

// useEverything makes a limiter on client do everything that it can. The store decides each time.
func useEverything(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	limits := core.MustParseLimits("100/m;ban=1h, 50/h;fixed-window, 50/h;sliding-window, 50/d;sliding-log, 20 at once")
	rules := []core.Rule{
		{Name: "all", Limits: limits, OnFailure: core.FailClosed},
		{Name: "leased", Limits: core.MustParseLimits("1000/m"), Lease: 100 * time.Millisecond, OnFailure: core.FailClosed},
	}
	for i := range rules {
		rules[i].Key = func(*http.Request) (string, error) { return "", core.ErrNoKey }
	}
	l := core.Must(core.New(rules, core.WithStore(redisstore.New(client)), core.WithTimeout(20*time.Second)))
	ctx := context.Background()
	check := func(what string, err error) {
		t.Helper()
		must.True(t, err == nil, "%s: %v", what, err)
	}
	for i := range 70 { // so that the log has more than one block of entries
		key := fmt.Sprint("user:", i%3)
		d, err := l.Take(ctx, core.Claim{Rule: "all", Key: key, Hold: true}, core.Claim{Rule: "all", Key: "all", Hold: true})
		check("take", err)
		check("renew", l.Renew(ctx, d))
		check("settle", l.Settle(ctx, d, "", i%3))
		_, err = l.Take(ctx, core.Claim{Rule: "leased", Key: key})
		check("take of a leased key", err)
	}
	d, err := l.Take(ctx, core.Claim{Rule: "leased", Key: "refunded"})
	check("take", err)
	check("refund", l.Refund(ctx, d))
	check("ban", l.Ban(ctx, "all", "user:1", time.Minute))
	_, err = l.Take(ctx, core.Claim{Rule: "all", Key: "user:1", Peek: true})
	check("peek", err)
	check("reset", l.Reset(ctx, "all", "user:1"))
	redistest.Wait(t, "the leases to end", func() bool { return l.StoreHealth().Leases.Keys == 0 })
	expect.Equal(t, l.StoreHealth().Err, nil, "the store has failed")
}

// wantNothingDenied fails the test if a server has denied a command, other than those by which go-redis introduces itself.
func wantNothingDenied(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		for _, e := range must.Get(s.Client(t).ACLLog(context.Background(), 128).Result())(t) {
			expect.True(t, strings.HasPrefix(e.Object, "client|"), "%s denied %s %q to %s", s.Addr, e.Reason, e.Object, e.Username)
		}
	}
}
