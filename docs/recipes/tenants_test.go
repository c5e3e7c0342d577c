package recipes

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A denied request of a user costs the tenant nothing. If the tenant's limit is used up, all its users are denied.
func TestTenantsAndTheirUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := must.Get(tenants(keyfunc.Header("X-Tenant"), keyfunc.Header("X-User")))(t)
		h := stdlib.New(l)(ok)
		want(t, "of one user", admitted(h, 150, someone, "/", "X-Tenant", "acme", "X-User", "ann"), 100)
		total := 100
		for _, user := range []string{"b", "c", "d", "e", "f", "g", "h", "i", "j", "k"} {
			total += admitted(h, 100, someone, "/", "X-Tenant", "acme", "X-User", user)
		}
		want(t, "of the tenant", total, 1000)
		last := must.Get(l.Take(t.Context(), core.Claim{Rule: "user", Key: "header:x-user:k", Peek: true}))(t)
		want(t, "left to a user whom only the tenant's limit has denied", last.Results[0].Remaining, 100)
		want(t, "of another tenant", admitted(h, 100, someone, "/", "X-Tenant", "globex", "X-User", "zoe"), 100)
	})
}

func TestAPIKeysInADatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down error
		lookups := 0
		db := map[string]account{"secret": {ID: "1", Limits: []core.Limit{core.PerMinute(3)}}, "plain": {ID: "2"}}
		a := &accounts{find: func(_ context.Context, key string) (account, error) {
			lookups++
			found, ok := db[key]
			switch {
			case down != nil:
				return account{}, down
			case !ok:
				return account{}, errUnknownKey
			}
			return found, nil
		}}
		h := must.Get(byAccount(a, keyfunc.RemoteIP, ok))(t)
		want(t, "with limits of its own", admitted(h, 10, someone, "/", "X-Api-Key", "secret"), 3)
		want(t, "with the limits of the rule", admitted(h, 70, someone, "/", "X-Api-Key", "plain"), 60)
		want(t, "look-ups", lookups, 2)
		want(t, "an unknown key", get(h, someone, "/", "X-Api-Key", "guess"), http.StatusUnauthorized)
		time.Sleep(2 * time.Minute)
		down = errors.New("connection reset")
		want(t, "a known key while the database is down", get(h, someone, "/", "X-Api-Key", "secret"), http.StatusOK)
		want(t, "an unknown one", get(h, someone, "/", "X-Api-Key", "guess"), http.StatusServiceUnavailable)
		down = nil
		delete(db, "secret")
		want(t, "a revoked key", get(h, someone, "/", "X-Api-Key", "secret"), http.StatusUnauthorized)
		want(t, "guesses of one address", admittedOr(h, 700, "203.0.113.99", http.StatusUnauthorized), 600)
	})
}

// admittedOr returns how many of n requests with a wrong API key get a status.
func admittedOr(h http.Handler, n int, from string, status int) (count int) {
	for range n {
		if get(h, from, "/", "X-Api-Key", "guess") == status {
			count++
		}
	}
	return count
}

func TestPlanWhileTheDatabaseIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down error
		h, _ := limited(ok, planned(keyfunc.RemoteIP, func(*http.Request) ([]core.Limit, error) {
			return []core.Limit{core.PerMinute(600)}, down
		}))
		want(t, "of the plan", admitted(h, 100, someone, "/"), 100)
		down = errors.New("connection reset")
		want(t, "of a client that has used more than the smallest plan", admitted(h, 100, someone, "/"), 0)
		want(t, "of another client", admitted(h, 100, "203.0.113.10", "/"), 60)
	})
}

func TestKeysBehindClouds(t *testing.T) {
	ingress, err1 := behindIngress("10.244.3.0/24")
	alb, err2 := behindALB("10.0.1.0/24", "10.0.2.0/24")
	cdn, err3 := behindCloudflare()
	must.Do(t, errors.Join(err1, err2, err3))
	for _, row := range []struct {
		why, peer, field, value, want string
		key                           core.KeyFunc
	}{
		{"ingress", "10.244.3.7:1", "X-Forwarded-For", "203.0.113.9", "ip:203.0.113.9", ingress},
		{"ingress, forged", "10.244.3.7:1", "X-Forwarded-For", "192.0.2.1, 203.0.113.9", "ip:203.0.113.9", ingress},
		{"another pod", "10.244.4.7:1", "X-Forwarded-For", "203.0.113.9", "ip:10.244.4.7", ingress},
		{"load balancer", "10.0.2.9:1", "X-Forwarded-For", "203.0.113.9", "ip:203.0.113.9", alb},
		{"Cloudflare", "104.16.1.1:1", "CF-Connecting-IP", "203.0.113.9", "ip:203.0.113.9", cdn},
		{"Cloudflare over IPv6", "[2606:4700::1]:1", "CF-Connecting-IP", "2001:db8:1:2::3", "ip:2001:db8:1:2::/64", cdn},
		{"past Cloudflare", "198.51.100.1:1", "CF-Connecting-IP", "203.0.113.9", "ip:198.51.100.1", cdn},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = row.peer
		r.Header.Set(row.field, row.value)
		got, err := row.key(r)
		expect.True(t, got == row.want && err == nil, "%s: got %q, %v; want %q", row.why, got, err, row.want)
	}
}

func TestRedisByURL(t *testing.T) {
	_ = must.Get(byURL("rediss://app:secret@redis.example.com:6379/0"))(t).Close()
	_ = bySentinel("main", "10.0.0.1:26379").Close()
	_ = byElastiCache("clustercfg.shop.abc.euc1.cache.amazonaws.com:6379", "app", "secret").Close()
}

func TestPartnersAreNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stdlib.New(friends(keyfunc.RemoteIP, netip.MustParsePrefix("198.51.100.0/24")))(ok)
		want(t, "of a partner", admitted(h, 150, "198.51.100.7", "/"), 150)
		want(t, "of anybody else", admitted(h, 150, someone, "/"), 100)
	})
}
