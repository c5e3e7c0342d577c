package spillgate_test

import (
	"regexp"
	"strings"
	"testing"
)

// libraries are those that README.md compares from their source, by the module that bench/go.mod requires.
var libraries = map[string]string{
	"httprate": "go-chi/httprate", "ulule/limiter": "ulule/limiter/v3", "tollbooth": "didip/tollbooth/v8",
	"echo": "labstack/echo/v4", "redis_rate": "go-redis/redis_rate/v10",
}

// sourcedCells are cells of README.md about what is not measured here, with their sources.
var sourcedCells = []struct{ row, column, cell string }{
	// source/rate-limit.ts of express-rate-limit: if the store fails, passOnStoreError admits the request; else, and by
	// default, the error is thrown.
	{"the store is down", "express-rate-limit", "an error, or admit"},
	// source/ip-key-generator.ts of express-rate-limit: ipv6Subnet is 56 by default, since 8.0 (pull request 503).
	{"an IPv6 client is", "express-rate-limit", "its /56, or as set"},
	// envoy.config.route.v3.RateLimit, since 1.33: apply_on_stream_done, with hits_addend for the cost.
	{"cost known after the response", "Envoy", "charged at the end, if configured"},
}

// comparison returns the lines of README.md that compare libraries, and the text above them.
func comparison(t *testing.T) (above string, table [][]string) {
	t.Helper()
	readme := readText(t, "README.md")
	above, rest, ok := strings.Cut(readme, "\n| | Spillgate |")
	if !ok {
		t.Fatal("README.md does not compare libraries")
	}
	lines, _, _ := strings.Cut("| | Spillgate |"+rest, "\n\n")
	for line := range strings.SplitSeq(lines, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		table = append(table, cells)
	}
	return above, table
}

// The comparison is about the versions that take part in the benchmarks.
func TestComparedVersionsAreThoseMeasured(t *testing.T) {
	above, _ := comparison(t)
	modules := readText(t, "bench/go.mod")
	for name, module := range libraries {
		version := regexp.MustCompile(regexp.QuoteMeta(module) + ` (v\d+\.\d+)`).FindStringSubmatch(modules)
		link := regexp.MustCompile(`\[` + regexp.QuoteMeta(name) + `\]\([^)]*\)\s(v\d+\.\d+)`).FindStringSubmatch(above)
		if version == nil || link == nil || version[1] != link[1] {
			t.Errorf("%s: README.md names %v, bench/go.mod %v", name, link, version)
		}
	}
}

func TestComparisonSaysWhatIsDocumented(t *testing.T) {
	_, table := comparison(t)
	cells := make(map[[2]string]string)
	for _, row := range table {
		if len(row) != len(table[0]) {
			t.Fatalf("got %d cells in row %q, want %d", len(row), row[0], len(table[0]))
		}
		for i, cell := range row {
			cells[[2]string{row[0], table[0][i]}] = cell
		}
	}
	for _, d := range sourcedCells {
		if got := cells[[2]string{d.row, d.column}]; got != d.cell {
			t.Errorf("%s, %s: got %q, want %q", d.row, d.column, got, d.cell)
		}
	}
}
