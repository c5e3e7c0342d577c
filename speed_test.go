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
	resultRow = regexp.MustCompile(`(?m)^\| spillgate +\| +[0-9.]+ \| +([0-9.]+) \|`)
)

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
		if m := resultRow.FindStringSubmatch(table); m != nil {
			measured[name], _ = strconv.ParseFloat(m[1], 64)
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
