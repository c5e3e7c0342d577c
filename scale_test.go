package spillgate_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var scaleRow = regexp.MustCompile(`(?m)^\| ([^|]+?) \| ([^|]+?) \| ([0-9.]+) \|$`)

// TestScaleIsNearResults compares the rounded numbers of docs/scale.md with bench/RESULTS.md: none is off by more than a factor
// of three.
func TestScaleIsNearResults(t *testing.T) {
	page := readText(t, "docs/scale.md")
	results := readText(t, "bench/RESULTS.md")
	_, numbers, _ := strings.Cut(page, "\n## The numbers\n")
	numbers, _, _ = strings.Cut(numbers, "\n## ")
	rows := scaleRow.FindAllStringSubmatch(numbers, -1)
	if len(rows) < 6 {
		t.Errorf("docs/scale.md quotes %d numbers, want at least 6", len(rows))
	}
	for _, row := range rows {
		_, table, ok := strings.Cut(results, "\n### "+row[1]+"\n")
		table, _, _ = strings.Cut(table, "\n### ")
		says, _ := strconv.ParseFloat(row[3], 64)
		measured := firstNumber(table, row[2])
		if !ok || says > 3*measured || says < measured/3 {
			t.Errorf("docs/scale.md says %s %s for %q, bench/RESULTS.md %v", row[3], row[2], row[1], measured)
		}
	}
}

// firstNumber returns what the first column of a table with that title says of Spillgate.
func firstNumber(table, title string) float64 {
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) > 2 && strings.TrimSpace(cells[1]) == "spillgate" && strings.Contains(table, " "+title+" |") {
			n, _ := strconv.ParseFloat(strings.TrimSpace(cells[2]), 64)
			return n
		}
	}
	return 0
}
