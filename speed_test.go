package spillgate_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	socketRow = regexp.MustCompile(`(?m)^\| ([^|]*?) \| ([0-9.]+) \| ([0-9.]+) \|$`)
	redisCPU  = regexp.MustCompile(`(?m)^\| spillgate .*\(([0-9.]+)×\) \|[^|]*\|$`) // the last column but one
	speedRow  = regexp.MustCompile(`(?m)^\| ([^|]*?) \| ([0-9.]+) \|$`)
	resultRow = regexp.MustCompile(`(?m)^\| spillgate +\| +([0-9.]+) \| +([0-9.]+) \|`)
	inverse   = regexp.MustCompile(`(decisions|requests)/s \| × best peer`)
	peerRow   = regexp.MustCompile(`(?m)^\| [^|]+ \| +([0-9.]+) \| +1\.00 \|`)
)

// timeRatio returns how long Spillgate takes in a table of results, as a multiple of the fastest other library.
func timeRatio(table string) (ratio float64, ok bool) {
	own, peer := resultRow.FindStringSubmatch(table), peerRow.FindStringSubmatch(table)
	if own == nil || peer == nil {
		return 0, false
	}
	a, _ := strconv.ParseFloat(own[1], 64)
	b, _ := strconv.ParseFloat(peer[1], 64)
	if header, _, _ := strings.Cut(table, "\n|---"); inverse.MatchString(header) {
		return b / a, true
	}
	return a / b, true
}

// TestSpeedIsFromResults compares the ratios in README.md with those in bench/RESULTS.md, row by row.
func TestSpeedIsFromResults(t *testing.T) {
	results := readText(t, "bench/RESULTS.md")
	public, inside, ok := strings.Cut(results, "\n## Inside\n")
	if !ok || strings.Contains(results, "MISSED") {
		t.Error("bench/RESULTS.md has no section about what is inside, or speaks of bounds")
	}
	measured, redis := make(map[string]float64), make(map[string]float64)
	for _, row := range strings.Split(public, "\n### ")[1:] {
		name, table, _ := strings.Cut(row, "\n")
		if ratio, ok := timeRatio(table); ok {
			measured[name] = ratio
		}
		if cpu := redisCPU.FindStringSubmatch(table); cpu != nil {
			redis[name], _ = strconv.ParseFloat(cpu[1], 64)
		}
	}
	readme := readText(t, "README.md")
	_, speed, _ := strings.Cut(readme, "\n## Speed\n")
	speed, _, _ = strings.Cut(speed, "\n## ")
	check := func(name, quoted string, measured map[string]float64) {
		got, _ := strconv.ParseFloat(quoted, 64)
		digits := len(quoted) - strings.Index(quoted+".", ".") - 1
		if want, ok := measured[name]; !ok || math.Abs(got-want) > 0.501*math.Pow10(-max(digits, 0)) {
			t.Errorf("README.md says %s for %q, bench/RESULTS.md %v (a public row: %v; inside: %v)",
				quoted, name, want, ok, strings.Contains(inside, name))
		}
	}
	sockets, loops := socketRow.FindAllStringSubmatch(speed, -1), speedRow.FindAllStringSubmatch(speed, -1)
	if len(sockets) < 9 || len(loops) < 8 {
		t.Errorf("README.md quotes %d rows over sockets and %d loops, want at least 9 and 8", len(sockets), len(loops))
	}
	for _, row := range sockets {
		check(row[1], row[2], measured)
		check(row[1], row[3], redis)
	}
	for _, row := range loops {
		check(row[1], row[2], measured)
	}
}
