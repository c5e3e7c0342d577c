package main

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// Every row works, and every number in it is one.
func TestQuick(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, bench(t.Context(), []string{"-quick"}, &out, io.Discard))
	expect.True(t, !strings.Contains(out.String(), "NaN") && !strings.Contains(out.String(), "Inf"), "a number is none:\n%s", out.String())
	for _, name := range []string{"Limiter.Take, one hot key", "heap", "net/http, denied", "100/m, hot key", "net/http, 100,000 addresses, denied", "a server over sockets, memory", "gRPC over sockets, memory", "echo, denied", "telemetry, denied", "Redis, 1024 callers", "time in the script", "deny cache", "a lease, one key", "keys by Zipf"} {
		expect.True(t, strings.Contains(out.String(), name), "there is no row about %s", name)
	}
}

func TestFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"-rows", "("}, {"-rows", "no such row"}, {"-rounds", "x"}} {
		expect.Fails(t, bench(t.Context(), args, io.Discard, io.Discard), "%q passed", args)
	}
	var out bytes.Buffer
	must.Do(t, bench(t.Context(), []string{"-quick", "-rows", "net/http, denied$"}, &out, io.Discard))
	expect.True(t, strings.Count(out.String(), "### ") == 1, "want one row, got\n%s", out.String())
	files, _ := filepath.Glob("*")
	expect.Equal(t, len(files), 0, "a run of some rows must not replace the results, but it wrote %v", files)
}

// Users read rows, developers read bounds; both see where the numbers are from.
func TestReports(t *testing.T) {
	e := newEnv(t.Context(), 1, true, io.Discard)
	o := must.Get(e.run(httpRows()[0]))(t)
	chapters := []chapter{{section: section{title: "A title", about: "What it is about."}, outcomes: []*outcome{o}}}
	common := []string{"net/http, admitted", "cores", "load average", "sethvargo/go-limiter v0"}
	const required = "at most 1.20× the fastest peer"
	for name, c := range map[string]struct{ text, has, lacks string }{
		"results": {results(e, chapters), "\n## A title\n\nWhat it is about.\n", required},
		"bounds":  {bounds(e, chapters), required, "httprate  "},
		"since":   {bounds(e, chapters), "| net/http, admitted | spillgate: at most 1.08× the ns/decision |", "httprate  "},
	} {
		for _, want := range append(common, c.has) {
			expect.True(t, strings.Contains(c.text, want), "%s: %q is missing in\n%s", name, want, c.text)
		}
		expect.True(t, !strings.Contains(c.text, c.lacks), "%s: %q does not belong in\n%s", name, c.lacks, c.text)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{1, 100, 2}, 2},
		{[]float64{4, 1, 2, 100}, 3}, // the mean of the two in the middle
	} {
		var s []sample
		for _, v := range c.values {
			s = append(s, sample{v, -v})
		}
		got := medians(s)
		expect.True(t, got[0] == c.want && got[1] == -c.want, "medians of %v: %v", c.values, got)
	}
}

func TestBounds(t *testing.T) {
	fewer := &outcome{row: &row{unit: perDecision}, results: []result{
		{spillgate, ours, sample{50, 2, 600}}, {"slow", peer, sample{200, 9}}, {"fast", peer, sample{100, 2}},
		{"clock", baseline, sample{1, 0}}, {"spillgate, net/http", ours, sample{60, 0}}, {"bare net/http", baseline, sample{10, 0}},
		{"spillgate, gin", ours, sample{160, 0}}, {"bare gin", baseline, sample{100, 0}},
	}}
	more := &outcome{row: &row{unit: perSecond}, results: []result{
		{spillgate, ours, sample{300, 5}}, {"fast", peer, sample{100, 4}}, {"slow", peer, sample{50, 6}},
	}}
	best, _ := more.best()
	expect.Equal(t, best.name, "fast", "the best of those who want more")
	for _, c := range []struct {
		name  string
		of    *outcome
		bound bound
		holds bool
	}{
		{"the ratio is to the fastest peer, not to a baseline", fewer, toBest(0.5), true},
		{"just above", fewer, toBest(0.49), false},
		{"at most as much as another entry", fewer, atMost(spillgate, "slow", 0.25), true},
		{"more than another entry", fewer, atMost(spillgate, "slow", 0.24), false},
		{"as many allocations as allowed", fewer, allocs(2), true},
		{"one too many", fewer, allocs(1), false},
		{"as many bytes as allowed", fewer, allocBytes(600), true},
		{"a byte too many", fewer, allocBytes(599), false},
		{"value", fewer, valueBelow(50), true},
		{"value too high", fewer, valueBelow(49), false},
		{"second number", fewer, extraBelow(2), true},
		{"second number too high", fewer, extraBelow(1), false},
		{"gin adds 60, net/http 50", fewer, overhead("gin", 1.2), true},
		{"which is more than a tenth above", fewer, overhead("gin", 1.1), false},
		{"as much as another entry in a column", fewer, atMostIn("allocs", spillgate, "fast", 1), true},
		{"more than another entry in a column", fewer, atMostIn("allocs", "slow", "fast", 4.4), false},
		{"three times as many", more, atLeast(spillgate, "fast", 3), true},
		{"not four times", more, atLeast(spillgate, "fast", 4), false},
		{"50 less than another", fewer, adds(spillgate, "fast", -50), true},
		{"within a tenth", fewer, adds("spillgate, net/http", spillgate, 10.1), true},
		{"more by a tenth", fewer, adds("spillgate, net/http", spillgate, 9.9), false},
		{"not 51 less", fewer, adds(spillgate, "fast", -51), false},
		{"as many allocations as another", fewer, addsAllocs(spillgate, "fast", 0), true},
		{"7 more", fewer, addsAllocs("slow", "fast", 6), false},
		{"the tail is shorter", more, tailBelow("slow"), true},
		{"the tail is longer", more, tailBelow("fast"), false},
	} {
		v := c.bound(c.of)
		expect.Equal(t, v.holds, c.holds, "%s: %+v", c.name, v)
	}
}

// Where several numbers of a row matter, a table compares each with the best peer's number.
func TestTablesHaveRatios(t *testing.T) {
	o := &outcome{row: &row{unit: unit{columns: []string{"requests/s", "p50 µs"}, more: true}}, results: []result{
		{spillgate, ours, sample{300, 30}}, {"slow", peer, sample{100, 10}}, {"fast", peer, sample{200, 20}},
	}}
	want := line(spillgate, "300", "1.50", []string{"30.0"})
	text := o.table()
	expect.True(t, strings.Contains(text, want), "%q is missing in\n%s", want, text)
	o.row.unit.ratios = true
	want = line(spillgate, "300", "1.50", []string{"30.0 (1.50×)"})
	text = o.table()
	expect.True(t, strings.Contains(text, want), "%q is missing in\n%s", want, text)
}

func TestAddressesAscend(t *testing.T) {
	got := addresses(ascending(), 70_000, 1)
	expect.True(t, got[0] == "10.0.0.0:4711" && got[258] == "10.0.1.2:4711" && got[69_999] == "10.1.17.111:4711",
		"got %s, %s, %s", got[0], got[258], got[69_999])
}

func TestSequence(t *testing.T) {
	for name, m := range map[string]func(int) mix{"uniform": uniform, "zipf": func(n int) mix { return zipf(1.01, n) }} {
		keys := sequence(m(100), 10_000, 1)
		count := map[string]int{}
		for _, k := range keys {
			count[k]++
		}
		expect.True(t, len(keys) == 10_000 && len(count) >= 90 && len(count) <= 100,
			"%s: %d keys, %d different", name, len(keys), len(count))
		first := count["user:0"]
		expect.Equal(t, first > 1000, name == "zipf", "%s: the first key came %d times", name, first)
		expect.True(t, slices.Equal(keys, sequence(m(100), 10_000, 1)) && !slices.Equal(keys, sequence(m(100), 10_000, 2)),
			"%s: the order must depend on the seed, and on nothing else", name)
	}
}
