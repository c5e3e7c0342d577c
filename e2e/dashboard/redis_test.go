package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/telemetry"
)

// The page shows when the store is down, and when it is back.
func TestStoreIsKilledAndBack(t *testing.T) {
	redis := redistest.Start(t)
	s := newScene(t, telemetry.Options{}, core.WithStore(redisstore.New(redis.Client(t))))
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				s.ask(1, "ann")
			}
		}
	}()
	p := open(t, s.serve(t))
	p.wait(`document.getElementById("health").textContent === "store: ok" && document.getElementById("alert").hidden`)
	p.wait(`!document.getElementById("store-text").textContent.startsWith("No call")`)
	redis.Kill()
	p.wait(`document.getElementById("health").textContent === "store: unavailable"`)
	p.wait(`document.getElementById("undecided-why").textContent.includes("decided without the store")`)
	expect.Contains(t, p.text("alert"), "unavailable since", "the alert")
	title := eval[string](p, "document.title")
	expect.True(t, strings.HasPrefix(title, "(!)"), "the title %q", title)
	p.fits(view{"light", 1200}, "outage-")
	redis.Restart(t)
	p.wait(`document.getElementById("health").textContent === "store: ok" && document.getElementById("alert").hidden`)
}

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
