package dashboard

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/telemetry"
)

// The page counts requests that a lease decides without asking Redis.
func TestLeasesOfRedis(t *testing.T) {
	s := &scene{telemetry: telemetry.New(telemetry.Options{})}
	rule := core.Rule{Name: "tenant", Key: byUser, Limits: []core.Limit{core.PerSecond(100_000)}, Lease: time.Second}
	store := redisstore.New(redistest.Start(t).Client(t))
	s.limiter = core.Must(core.New([]core.Rule{rule}, core.WithStore(store), core.WithTimeout(limit), core.WithObserver(s.telemetry.Observe)))
	s.telemetry.Attach(s.limiter)
	p := open(t, s.serve(t))
	for begun := time.Now(); s.telemetry.Snapshot().Leases.Decisions < 100; {
		must.True(t, time.Since(begun) <= limit, "nothing is leased: %+v", store.LeaseStats())
		s.ask(100, "ann")
	}
	p.wait(`!document.getElementById("leases-tile").hidden && / [0-9.KM]+ since start/.test(document.getElementById("leases").textContent)`)
}
