package suggest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog/logtest"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/rulefile"
)

type entries = logtest.Entries

var noon, sent = logtest.Noon, logtest.Sent

func rules(t rapid.TB, src string) *rulefile.File { return logtest.Rules(t, src) }

const perIP = "rules: [{key: ip, limits: 1/s}]"

func run(t rapid.TB, src string, keep float64, log entries) *Report {
	t.Helper()
	rep, err := Run(context.Background(), rules(t, src), []replay.Source{&log}, Options{Keep: keep, Within: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func (r *Report) at(t *testing.T, rate string) *Rate {
	t.Helper()
	i := slices.IndexFunc(r.Rates, func(r Rate) bool { return r.Rate == rate })
	if i < 0 {
		t.Fatalf("there is no rate %s", rate)
	}
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
	if rep.Requests != 31 || rep.Clients != 3 || !rep.From.Equal(noon) || !rep.To.Equal(noon.Add(10*time.Second)) || rep.MayHit != 0 || rep.TooFew != 0 {
		t.Errorf("got %+v", rep)
	}
	tests := []struct {
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
	}
	for _, tt := range tests {
		var got []int
		for _, burst := range []int{1, 9, 10, 17, 18, 19, 20} {
			got = append(got, rep.at(t, tt.rate).HitBy(burst))
		}
		if !slices.Equal(got, tt.hit) {
			t.Errorf("%s: got %v clients hit, want %v", tt.rate, got, tt.hit)
		}
	}
}

func TestSuggestedLimitAdmitsLeast(t *testing.T) {
	// The log covers 10s, so rates fit that refill within 2.5s: 10/s, which needs 10 and admits 610 in a minute, and faster ones.
	rep := run(t, perIP, 100, handMade())
	if c := rep.Chosen; c == nil || c.Limit != "10/s" || c.Burst != 10 || c.Hit != 0 || fmt.Sprint(c.Most) != "[{ip:a 20 10} {ip:b 10 1} {ip:c 1 1}]" {
		t.Errorf("got %+v, want 10/s, whose burst is 10 anyway", c)
	}
	if rep.at(t, "5/s").Suitable || !rep.at(t, "10/s").Suitable || !rep.at(t, "1000/s").Suitable {
		t.Error("5/s needs 15, rounded up to 16, which refills within 3.2s")
	}
	// In a log of two minutes, 1/s fits, which needs 19, rounded up to 20, and admits 80 in a minute, and so does 2/s, which needs
	// 18 and admits 20 in a second.
	for within, want := range map[time.Duration]string{time.Minute: "1/s;burst=20", time.Second: "2/s;burst=18", time.Millisecond: "10/s"} {
		log := append(handMade(), sent(2*time.Minute, "d", "/"))
		rep, err := Run(t.Context(), rules(t, perIP), []replay.Source{&log}, Options{Keep: 100, Within: within})
		if err != nil || rep.Chosen.Limit != want {
			t.Errorf("within %v: got %+v, %v; want %s", within, rep.Chosen, err, want)
		}
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
	if err != nil || rep.Skipped != 1 || rep.Requests+rep.Others+rep.Skipped != all || rep.Others != 15 || rep.Clients != 2 {
		t.Errorf("got %+v, %v", rep, err)
	}
	rep = run(t, "rules: [{key: header(X-A), limits: 1/s}]", 99, handMade())
	if rep.Keyless != 31 || rep.Requests != 0 || rep.Chosen != nil || rep.Error == "" {
		t.Errorf("without keys: got %+v", rep)
	}
}

func TestOneRequestAndOneInstant(t *testing.T) {
	for _, n := range []int{1, 500} {
		var log entries
		for range n {
			log = append(log, sent(0, "a", "/"))
		}
		rep := run(t, perIP, 99.9, log)
		if rep.Chosen == nil || rep.Chosen.Burst != n || rep.Chosen.Hit != 0 || rep.Checked != nil || rep.TooFew != 2995 {
			t.Errorf("%d requests at once: got %+v, %+v", n, rep, rep.Chosen)
		}
	}
	if rep := run(t, perIP, 99.9, nil); rep.Chosen != nil || rep.Requests != 0 {
		t.Errorf("an empty log: got %+v", rep)
	}
}

func TestWholeSecondsGiveARangeOfBursts(t *testing.T) {
	log := handMade()
	for i := range log {
		log[i].Seconds = true
	}
	log = slices.DeleteFunc(log, func(e accesslog.Entry) bool { return e.Client == "c" })
	rep, err := Run(t.Context(), rules(t, perIP), []replay.Source{&log}, Options{Keep: 100, Within: time.Millisecond})
	if err != nil || rep.Chosen.Limit != "10/s" || rep.Chosen.EvenBurst != 1 {
		t.Errorf("got %+v, %v; want 10/s, or a burst of 1 if requests are spread", rep.Chosen, err)
	}
}

func TestInterruptedRunReportsWhatItKnows(t *testing.T) {
	log := make(entries, 40_000)
	for i := range log {
		log[i] = sent(time.Duration(i), "x", "/")
	}
	ctx, cancel := context.WithCancel(t.Context())
	rep, err := Run(ctx, rules(t, perIP), []replay.Source{&log}, Options{Keep: 99, Options: replay.Options{Progress: func(int) { cancel() }}})
	if err != nil || !rep.Incomplete || rep.Requests == 0 || rep.Requests == 40_000 || rep.Chosen == nil {
		t.Errorf("got %v, %+v", err, rep)
	}
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
		if err != nil || again.Rules[0].KeysHit != r.HitBy(burst) {
			t.Fatalf("%s: a replay hits %d clients, the table says %d; %v", src, again.Rules[0].KeysHit, r.HitBy(burst), err)
		}
	})
}
