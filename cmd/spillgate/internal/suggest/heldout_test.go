package suggest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/internal/testpass"
)

// heavyTail returns a log of two days: sessions of clients, whose lengths and paces have heavy tails. Some clients return.
func heavyTail(seed uint64, clients int) (log entries) {
	random := rand.New(rand.NewPCG(seed, 1))
	pareto := func(least, shape float64) float64 { return least / math.Pow(1-random.Float64(), 1/shape) }
	for c := range clients {
		pace := pareto(0.05, 1.1) // seconds between requests
		for range 1 + random.IntN(2) {
			at := random.Float64() * 48 * 3600
			for range int(min(pareto(1, 1.2), 3000)) {
				log = append(log, sent(time.Duration(at*1e9).Truncate(time.Millisecond), fmt.Sprintf("c%d", c), "/"))
				at += random.ExpFloat64() * pace
			}
		}
	}
	slices.SortFunc(log, func(a, b accesslog.Entry) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return log
}

func TestSuggestionHoldsForTheSecondHalf(t *testing.T) {
	testpass.Thorough(t)
	for seed := range uint64(4) {
		log := heavyTail(seed, 8_000)
		for _, keep := range []float64{90, 99, 99.9} {
			rep := run(t, perIP, keep, slices.Clone(log))
			c := rep.Checked
			t.Logf("seed %d, keep %v%%: %s hits %d of %d clients; learned from %d: %s hits %d of %d, %.3f%%", seed, keep, rep.Chosen.Limit, rep.Chosen.Hit, rep.Clients, c.Learned, c.Limit, c.Hit, c.Clients, c.Percent)
			if !c.Holds() || c.Percent > 1.5*c.Promised {
				t.Errorf("seed %d: the second half hits %.3f%%, more than 1.5 times the promised %.3f%%", seed, c.Percent, c.Promised)
			}
			if share := 100 * float64(rep.Chosen.Hit) / float64(rep.Clients); share > 100-keep || rep.Chosen.Hit > rep.MayHit {
				t.Errorf("seed %d: the log itself hits %.3f%%", seed, share)
			}
			if c.Clients < 3000 || rep.Chosen.Burst > 10_000 {
				t.Errorf("seed %d: got %+v, %+v; want a test that says something", seed, c, rep.Chosen)
			}
		}
	}
}
