package redisx_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// TestDrainedLeasesAreDecidedFast checks that a key is cheap for the server while it is leased and after: most keys are asked for
// only a few times. The functions for pairs of any state read several fields.
func TestDrainedLeasesAreDecidedFast(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s, other := redisx.New(client, options), redisx.New(client, options)
	c := claimOf("k", core.PerSecond(1_000_000))
	take(t, s, leased(c))
	for _, step := range []struct {
		why   string
		store *redisx.Store
		claim core.Claim
		later time.Duration
	}{
		{"a grant", s, leased(c), 0},
		{"a request after the grant has drained", other, c, time.Second},
		{"one after that", other, c, 0},
		{"a grant for a bucket that has been leased", other, leased(c), time.Second},
	} {
		s.Shift(step.later)
		other.Shift(step.later)
		client.ConfigResetStat(context.Background())
		take(t, step.store, step.claim)
		granted(t, step.store)
		if stats := client.Info(context.Background(), "commandstats").Val(); strings.Contains(stats, "cmdstat_hmget") {
			t.Errorf("%s: %s", step.why, stats)
		}
	}
}
