package spillgate_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
)

// A resultTable is a table of bench/RESULTS.md: the cells of each contestant by column, and the name of the first column.
type resultTable map[string]map[string]string

const first = "first column"

// cellsOf returns the cells of a line of a table in Markdown.
func cellsOf(line string) (cells []string) {
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

// publicResults returns the tables of bench/RESULTS.md that are for users, by the name of their row.
func publicResults(t *testing.T) map[string]resultTable {
	text := readText(t, "bench/RESULTS.md")
	public, _, ok := strings.Cut(text, "\n## Inside\n")
	expect.True(t, ok && !strings.Contains(text, "MISSED"), "bench/RESULTS.md has no section about what is inside, or speaks of bounds")
	all := make(map[string]resultTable)
	for _, section := range strings.Split(public, "\n### ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		table, columns := resultTable{}, []string(nil)
		for line := range strings.Lines(body) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") {
				continue
			}
			cells := cellsOf(line)
			if columns == nil {
				columns = cells
				continue
			}
			table[cells[0]] = map[string]string{first: columns[1]}
			for i, column := range columns {
				table[cells[0]][column] = cells[i]
			}
		}
		all[name] = table
	}
	return all
}

// behind returns how far Spillgate is behind the best peer in a row: 2 if it takes twice the time or does half the work.
func behind(row map[string]string) float64 {
	ratio, _ := strconv.ParseFloat(row["× best peer"], 64)
	if strings.HasSuffix(row[first], "/s") && ratio > 0 {
		return 1 / ratio
	}
	return ratio
}

// TestSpeedIsFromResults compares each number in README.md about speed with bench/RESULTS.md.
func TestSpeedIsFromResults(t *testing.T) {
	results := publicResults(t)
	_, speed, _ := strings.Cut(readText(t, "README.md"), "\n## Speed\n")
	speed, _, _ = strings.Cut(speed, "\n## ")

	share := regexp.MustCompile(`takes ([\d.]+) µs[^.]* without a limiter\.\s+Spillgate adds ([\d.]+) µs to it, and httprate ([\d.]+) µs`).FindStringSubmatch(speed)
	sockets := results["a server over sockets, memory"]
	want := []string{sockets["baseline: no limiter"]["server CPU µs"], sockets["spillgate"]["added CPU µs"], sockets["httprate"]["added CPU µs"]}
	expect.True(t, share != nil && strings.Join(share[1:], " ") == strings.Join(want, " "),
		"README.md says that a request, Spillgate and httprate take %q, bench/RESULTS.md %q", share, want)

	quoted, worst, columns := make(map[string]bool), "", []string(nil)
	for line := range strings.Lines(speed) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") {
			continue
		}
		cells := cellsOf(line)
		if cells[0] == "" {
			columns = cells
			continue
		}
		row := results[cells[0]]["spillgate"]
		for i := 1; i < len(cells); i++ {
			expect.True(t, cells[i] == row[columns[i]],
				"README.md says %q for %s of %q, bench/RESULTS.md %q", cells[i], columns[i], cells[0], row[columns[i]])
		}
		quoted[cells[0]] = true
	}
	for name, table := range results {
		row := table["spillgate"]
		if row["× best peer"] == "" || strings.HasPrefix(name, "a server over sockets") || strings.HasPrefix(name, "lease") {
			continue
		}
		expect.True(t, quoted[name], "README.md does not quote %q", name)
		if worst == "" || behind(row) > behind(results[worst]["spillgate"]) {
			worst = name
		}
	}
	if want := `The worst row is "` + worst + `"`; !strings.Contains(speed, want) {
		t.Errorf("README.md does not say: %s", want)
	}
}
