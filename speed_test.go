package spillgate_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	speedRow  = regexp.MustCompile(`(?m)^\| ([^|]*?) \| ([0-9.]+) \|$`)
	resultRow = regexp.MustCompile(`(?m)^\| spillgate +\| +([0-9.]+) \| +([0-9.]+) \|`)
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
	if header, _, _ := strings.Cut(table, "\n|---"); strings.Contains(header, "decisions/s | × best peer") {
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
	measured := make(map[string]float64)
	for _, row := range strings.Split(public, "\n### ")[1:] {
		name, table, _ := strings.Cut(row, "\n")
		if ratio, ok := timeRatio(table); ok {
			measured[name] = ratio
		}
	}
	readme := readText(t, "README.md")
	_, speed, _ := strings.Cut(readme, "\n## Speed\n")
	speed, _, _ = strings.Cut(speed, "\n## ")
	rows := speedRow.FindAllStringSubmatch(speed, -1)
	if len(rows) < 8 {
		t.Errorf("README.md quotes %d rows, want at least 8", len(rows))
	}
	for _, row := range rows {
		got, _ := strconv.ParseFloat(row[2], 64)
		digits := len(row[2]) - strings.Index(row[2]+".", ".") - 1
		if want, ok := measured[row[1]]; !ok || math.Abs(got-want) > 0.501*math.Pow10(-max(digits, 0)) {
			t.Errorf("README.md says %s for %q, bench/RESULTS.md %s (a public row: %v; inside: %v)",
				row[2], row[1], fmt.Sprint(want), ok, strings.Contains(inside, row[1]))
		}
	}
}
