package suggest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog/logtest"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
	"github.com/spillgate/spillgate/rulefile"
	"pgregory.net/rapid"
)

type entries = logtest.Entries

var noon, sent = logtest.Noon, logtest.Sent

func rules(t rapid.TB, src string) *rulefile.File { return logtest.Rules(t, src) }

const perIP = "rules: [{key: ip, limits: 1/s}]"

func run(t rapid.TB, src string, keep float64, log entries) *Report {
	t.Helper()
	rep := must.Get(Run(context.Background(), rules(t, src), []replay.Source{&log}, Options{Keep: keep, Within: time.Minute}))(t)
	return rep
}

func (r *Report) at(t *testing.T, rate string) *Rate {
	t.Helper()
	i := slices.IndexFunc(r.Rates, func(r Rate) bool { return r.Rate == rate })
	must.True(t, i >= 0, "there is no rate %s", rate)
	return &r.Rates[i]
}

// Client a sends 10 at once, and 10 a second later; b sends one a second, ten times; c sends one.
func handMade() (log entries) {
	for i := range 10 {
		if i < 2 {
			for range 10 {
				log = append(log, sent(time.Duration(i)*time.Second, "a", "/"))
			}
		}
		log = append(log, sent(time.Duration(i)*time.Second, "b", "/"))
	}
	return append(log, sent(10*time.Second, "c", "/"))
}

func TestBurstsOfASmallLog(t *testing.T) {
	rep := run(t, perIP, 100, handMade())
	expect.True(t, rep.Requests == 31 && rep.Clients == 3 && rep.From.Equal(noon) && rep.To.Equal(noon.Add(10*time.Second)) && rep.MayHit == 0 && rep.TooFew == 0,
		"got %+v", rep)
	for _, tt := range []struct {
		rate string
		hit  []int // by bursts of 1, 9, 10, 17, 18, 19, 20
	}{
		{"1000/s", []int{1, 1, 0, 0, 0, 0, 0}},
		{"10/s", []int{1, 1, 0, 0, 0, 0, 0}}, // empty again after a second
		{"5/s", []int{1, 1, 1, 0, 0, 0, 0}},  // 10 - 5 + 10 = 15
		{"2/s", []int{1, 1, 1, 1, 0, 0, 0}},  // 18
		{"1/s", []int{1, 1, 1, 1, 1, 0, 0}},  // 19; b needs 1
		{"30/m", []int{2, 1, 1, 1, 1, 1, 0}}, // 19.5; b needs 10 - 4.5 = 5.5
		{"1/h", []int{2, 2, 1, 1, 1, 1, 0}},  // less than 20; b less than 10
	} {
		var got []int
		for _, burst := range []int{1, 9, 10, 17, 18, 19, 20} {
			got = append(got, rep.at(t, tt.rate).HitBy(burst))
		}
		expect.Elements(t, got, tt.hit, "%s: clients hit", tt.rate)
	}
}

func TestSuggestedLimitAdmitsLeast(t *testing.T) {
	// The log covers 10s, so rates fit that refill within 2.5s: 10/s, which needs 10 and admits 610 in a minute, and faster ones.
	rep := run(t, perIP, 100, handMade())
	if c := rep.Chosen; c == nil || c.Limit != "10/s" || c.Burst != 10 || c.Hit != 0 || fmt.Sprint(c.Most) != "[{ip:a 20 10} {ip:b 10 1} {ip:c 1 1}]" {
		t.Errorf("got %+v, want 10/s, whose burst is 10 anyway", c)
	}
	expect.True(t, !rep.at(t, "5/s").Suitable && rep.at(t, "10/s").Suitable && rep.at(t, "1000/s").Suitable,
		"5/s needs 15, rounded up to 16, which refills within 3.2s")
	// In a log of two minutes, 1/s fits, which needs 19, rounded up to 20, and admits 80 in a minute, and so does 2/s, which needs
	// 18 and admits 20 in a second.
	for within, want := range map[time.Duration]string{time.Minute: "1/s;burst=20", time.Second: "2/s;burst=18", time.Millisecond: "10/s"} {
		log := append(handMade(), sent(2*time.Minute, "d", "/"))
		rep := must.Get(Run(t.Context(), rules(t, perIP), []replay.Source{&log}, Options{Keep: 100, Within: within}))(t)
		expect.Equal(t, rep.Chosen.Limit, want, "within %v: %+v", within, rep.Chosen)
	}
}

func TestRuleSaysWhichRequestsCount(t *testing.T) {
	log := handMade()
	for i := range log {
		if i%2 == 0 {
			log[i].Target = "/login"
		}
		if log[i].Client == "c" {
			log[i].Status = 429
		}
	}
	src := "rules: [{key: 'first(header(X-A), ip)', match: GET /login, limits: 1/s}]"
	all := len(log)
	rep, err := Run(t.Context(), rules(t, src), []replay.Source{&log}, Options{Options: replay.Options{SkipStatus: map[int]bool{429: true}}, Keep: 100})
	expect.True(t, err == nil && rep.Skipped == 1 && rep.Requests+rep.Others+rep.Skipped == all && rep.Others == 15 && rep.Clients == 2,
		"got %+v, %v", rep, err)
	rep = run(t, "rules: [{key: header(X-A), limits: 1/s}]", 99, handMade())
	expect.True(t, rep.Keyless == 31 && rep.Requests == 0 && rep.Chosen == nil && rep.Error != "", "without keys: got %+v", rep)
	late := entries{sent(time.Minute, "b", "/x"), sent(0, "a", "/"), sent(time.Minute, "a", "/")} // all count at the same time, as in a replay
	expect.Equal(t, run(t, "rules: [{key: ip, limits: 1/s, match: '/{$}'}]", 100, late).at(t, "1/m").Burst, 2, "burst that a needs")
}

func TestOneRequestAndOneInstant(t *testing.T) {
	for _, n := range []int{1, 500} {
		var log entries
		for range n {
			log = append(log, sent(0, "a", "/"))
		}
		rep := run(t, perIP, 99.9, log)
		expect.True(t, rep.Chosen != nil && rep.Chosen.Limit == fmt.Sprintf("%d/s", n) && rep.Chosen.Hit == 0 && rep.Checked == nil && rep.TooFew == 2995,
			"%d requests at once: got %+v, %+v", n, rep, rep.Chosen)
	}
	rep := run(t, perIP, 99.9, nil)
	expect.True(t, rep.Chosen == nil && rep.Requests == 0, "an empty log: got %+v", rep)
}

func TestWholeSecondsGiveARangeOfBursts(t *testing.T) {
	for _, step := range []time.Duration{0, 100 * time.Microsecond} { // of durations, which move whole seconds
		log := slices.DeleteFunc(handMade(), func(e accesslog.Entry) bool { return e.Client == "c" })
		for i := range log {
			log[i].Started, log[i].Seconds, log[i].Duration = true, true, time.Duration(i)*step
		}
		rep, err := Run(t.Context(), rules(t, perIP), []replay.Source{&log}, Options{Keep: 100, Within: time.Millisecond})
		expect.True(t, err == nil && rep.Chosen.Limit == "10/s" && rep.Chosen.EvenBurst == 1,
			"got %+v, %v; want 10/s, or a burst of 1 if requests are spread", rep.Chosen, err)
	}
}

func TestInterruptedRunReportsWhatItKnows(t *testing.T) {
	log := make(entries, 40_000)
	for i := range log {
		log[i] = sent(time.Duration(i), "x", "/")
	}
	ctx, cancel := context.WithCancel(t.Context())
	rep, err := Run(ctx, rules(t, perIP), []replay.Source{&log}, Options{Keep: 99, Options: replay.Options{Progress: func(int) { cancel() }}})
	expect.True(t, err == nil && rep.Incomplete && rep.Requests != 0 && rep.Requests != 40_000 && rep.Chosen != nil,
		"got %v, %+v", err, rep)
}

// A replay with each limit gives the same counts.
func TestReplayHitsTheSameClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, time.Second, time.Minute}).Draw(t, "unit")
		at := time.Duration(0)
		log := make(entries, rapid.IntRange(1, 60).Draw(t, "requests"))
		for i := range log {
			at += unit * time.Duration(rapid.IntRange(-1, 30).Draw(t, "pause")) // times in logs sometimes go back
			log[i] = sent(at, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client"), "/")
		}
		rep := run(t, perIP, 100, slices.Clone(log))
		r := rapid.SampledFrom(rep.Rates).Draw(t, "rate")
		burst := rapid.IntRange(1, 40).Draw(t, "burst")
		src := fmt.Sprintf("rules: [{key: ip, limits: %s}]", limitText(r.limit, burst))
		again, err := replay.Run(context.Background(), rules(t, src), []replay.Source{&log}, replay.Options{Knows: func(string) bool { return false }})
		must.True(t, err == nil && again.Rules[0].KeysHit == r.HitBy(burst),
			"%s: a replay hits %d clients, the table says %d; %v", src, again.Rules[0].KeysHit, r.HitBy(burst), err)
	})
}

func peaksOf(bursts ...int) *peaks {
	p := newPeaks(1)[0]
	for _, b := range bursts {
		p.add(b)
	}
	return p
}

func TestSmallestBurstThatHitsAtMost(t *testing.T) {
	p := peaksOf(1, 1, 1, 5, 5, 10)
	for n, want := range []int{10, 5, 5, 1, 1, 1, 1} {
		if got := p.least(n); got != want || p.above(got) > n {
			t.Errorf("%d clients may be hit: got a burst of %d, which hits %d; want %d", n, got, p.above(got), want)
		}
	}
}

// In each half, a client starts with empty buckets. A request at the boundary belongs to the second half.
func TestHalvesStartWithEmptyBuckets(t *testing.T) {
	l := learner{index: make(map[string]int)}
	for _, at := range []int64{0, 0, 0, 10, 10} {
		l.key, l.now = "a", at
		l.record()
	}
	l.key = "b"
	l.record()
	whole, first, second := l.drain(10)
	for i, want := range []struct {
		p    *peaks
		want string
	}{{whole[0], "map[1:1 5:1]"}, {first[0], "map[3:1]"}, {second[0], "map[1:1 2:1]"}} {
		expect.Equal(t, fmt.Sprint(want.p.counts), want.want, "part %d: clients by burst", i)
	}
}

func TestCheckLearnsFromTheFirstHalf(t *testing.T) {
	r := Rate{limit: core.PerSecond(1)}
	c := (&Report{Keep: 100}).check(&r, peaksOf(1, 7), peaksOf(1, 1, 7, 8))
	expect.True(t, c.Burst == 7 && c.Limit == "1/s;burst=7" && c.Learned == 2 && c.Clients == 4 && c.Hit == 1 && c.Percent == 25 && c.Promised == 0 && !c.Holds(),
		"got %+v", c)
	c = (&Report{Keep: 85}).check(&r, peaksOf(1, 7), peaksOf(1, 1, 1, 7, 8))
	expect.True(t, c.Hit == 1 && c.Holds(), "20%% are hit, 15%% promised: got %+v", c)
}

// The first half has fewer clients, and more of them with large bursts.
func TestSuggestedBurstFitsTheFirstHalf(t *testing.T) {
	var log entries
	for i := range 400 {
		client, sends := fmt.Sprint(i), 1
		if i < 100 {
			sends = 1 + i%4
		}
		for range sends {
			log = append(log, sent(time.Duration(i)*time.Second, client, "/"))
		}
	}
	rep := run(t, perIP, 70, log)
	if c, first := rep.Chosen, rep.Checked; first.Burst <= rep.at(t, c.Rate).Burst || c.Burst != first.Burst {
		t.Errorf("got %+v; the first half alone needs %+v, and all of it %d", c, first, rep.at(t, c.Rate).Burst)
	}
}

func TestFractionsOfSecondsEndTheRange(t *testing.T) {
	log := entries{sent(0, "a", "/"), sent(time.Second, "a", "/")}
	log[1].Seconds = true
	rep := run(t, perIP, 100, log)
	expect.Equal(t, rep.Chosen.EvenBurst, 0, "%+v", rep.Chosen)
}

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
			expect.True(t, c.Holds() && c.Percent <= 1.5*c.Promised,
				"seed %d: the second half hits %.3f%%, more than 1.5 times the promised %.3f%%", seed, c.Percent, c.Promised)
			share := 100 * float64(rep.Chosen.Hit) / float64(rep.Clients)
			expect.True(t, share <= 100-keep && rep.Chosen.Hit <= rep.MayHit, "seed %d: the log itself hits %.3f%%", seed, share)
			expect.True(t, c.Clients >= 3000 && rep.Chosen.Burst <= 10_000,
				"seed %d: got %+v, %+v; want a test that says something", seed, c, rep.Chosen)
		}
	}
}

func TestToleranceLimits(t *testing.T) {
	for _, tt := range []struct {
		n            int
		keep         float64
		hits, needed int
	}{
		{1, 99.9, 0, 2995}, {2994, 99.9, 0, 2995}, {2995, 99.9, 0, 0}, // Wilks: ln 0.05 / ln 0.999
		{58, 95, 0, 59}, {59, 95, 0, 0}, {92, 95, 0, 0}, {93, 95, 1, 0}, {181, 95, 4, 0}, // tables of 95/95 tolerance limits
		{1_000_000, 99.9, 947, 0}, {10, 100, 0, 0},
	} {
		if hits, needed := mayHit(tt.n, tt.keep); hits != tt.hits || needed != tt.needed {
			t.Errorf("%d clients, %v%%: got %d, %d; want %d, %d", tt.n, tt.keep, hits, needed, tt.hits, tt.needed)
		}
	}
	for _, n := range []int{100_000, 10_000_000} { // near the normal distribution
		mean := float64(n) * 0.01
		want := mean - 1.645*math.Sqrt(mean*0.99)
		hits, _ := mayHit(n, 99)
		expect.True(t, math.Abs(float64(hits)-want) <= 2+want/1e4, "%d clients: got %d, want about %.0f", n, hits, want)
	}
}

func TestRoundedNumbers(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 9: 9, 10: 10, 11: 12, 19: 20, 21: 25, 49: 50, 51: 60, 99: 100, 101: 120, 421: 450, 951: 1000, 12_345: 14_000} {
		expect.Equal(t, roundUp(n), want, "%d", n)
	}
}

func TestHistogramFindsTheMiddle(t *testing.T) {
	for _, step := range []int64{1, 1000, 77_777, 3_600_000_000} {
		d := histogram{from: 5}
		const n = 10_000
		for i := range int64(n) {
			d.add(5 + i*step)
		}
		got, want := d.half(n), 5+n/2*step
		off := max(got-want, want-got)
		expect.True(t, off <= d.width, "a step of %d: got %d, want about %d", step, got, want)
	}
}
