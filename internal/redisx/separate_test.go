package redisx_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

func TestRingDecidesEachIdentityOnItsShard(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}})
	t.Cleanup(func() { ring.Close() })
	s := redisx.New(ring, options)
	decidesApart(t, s)
}

func TestClusterDecidesEachSlotOnItsNode(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t).Client(t)
	decidesApart(t, redisx.New(client, options))
	flush(t, client)
	decidesApart(t, redisx.New(struct{ *redis.ClusterClient }{client}, options))
}

// decidesApart checks requests of several identities: none is charged if one is denied, and all are refunded together.
func decidesApart(t *testing.T, s *redisx.Store) {
	t.Helper()
	limits := everyAlgorithm(5, ages)
	var claims []core.Claim
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		claims = append(claims, claimOf(key, limits...))
	}
	ctx := context.Background()
	results, err := s.Take(ctx, claims, nil)
	if err != nil || !allowed(results) {
		t.Fatalf("%+v, %v", results, err)
	}
	first := settled(claims, results)
	claims[3].Cost = 5
	for range 2 {
		for i, r := range take(t, s, claims...) {
			if r.Remaining != 4 || r.Allowed != (i/each != 3) {
				t.Errorf("result %d of a denied request: %+v, want 4 remaining", i, r)
			}
		}
	}
	dryRunsAndPeeksApart(t, s, claims)
	claims[4], claims[5], claims[3].Cost = claimOf("e", limits...), claimOf("f", limits...), 1
	if err := s.Settle(ctx, first); err != nil {
		t.Fatal(err)
	}
	for i, r := range take(t, s, claims...) {
		if want := threeThenFour(i); r.Remaining != want {
			t.Errorf("result %d after a refund: %+v, want %d remaining", i, r, want)
		}
	}
}

// each is how many limits everyAlgorithm returns.
const each = int(core.InFlight)

// threeThenFour returns what remains of a limit of six claims: 3 for the first four claims, 4 for the others.
func threeThenFour(result int) int {
	if result/each >= 4 {
		return 4
	}
	return 3
}

// dryRunsAndPeeksApart checks a request whose fifth claim is a dry run that does not fit, and whose sixth is a peek.
func dryRunsAndPeeksApart(t *testing.T, s *redisx.Store, claims []core.Claim) {
	t.Helper()
	claims[3].Cost, claims[4].DryRun, claims[5].Peek = 1, true, true
	claims[4].Cost = 5
	for i, r := range take(t, s, claims...) {
		if want := threeThenFour(i); r.Remaining != want || r.Allowed != (i/each != 4) {
			t.Errorf("result %d: %+v, want %d remaining", i, r, want)
		}
	}
	claims[4].Cost, claims[3].Cost = 4, 5
	if r := take(t, s, claims...); r[4*each].Remaining != 4 {
		t.Errorf("a dry run of a denied request leaves %+v, want 4 remaining", r[4*each])
	}
}
