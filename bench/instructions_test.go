package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// fakeValgrind runs the program behind its flags, and writes that it took a million instructions more than the one before.
const fakeValgrind = `#!/bin/sh
echo >> "$0.runs"
while case $1 in -*) true;; *) false;; esac; do
	case $1 in --callgrind-out-file=*) file=${1#*=};; esac
	shift
done
echo "totals: $(wc -l < "$0.runs")000000" | tee "$file" > "$file.2"
exec "$@"
`

// counting returns an env that counts instructions by fakeValgrind, in processes of this test.
func counting(t *testing.T) *env {
	e := newEnv(t.Context(), 1, true, io.Discard)
	t.Cleanup(e.close)
	e.valgrind, e.symbols = filepath.Join(t.TempDir(), "valgrind"), t.TempDir()
	must.Do(t, os.Symlink(must.Get(thisProgram())(t).path, filepath.Join(e.symbols, "bench")))
	must.Do(t, os.WriteFile(e.valgrind, []byte(fakeValgrind), 0o700))
	return e
}

func TestInstructionsOfADecision(t *testing.T) {
	e := counting(t)
	r, ok := find("Limiter.Take, one hot key")
	must.True(t, ok, "there is no such row")
	samples := [][]sample{{{1, 2, 3}, {4, 5, 6}}}
	counted := must.Get(e.count(r, []entry{{name: spillgate}}, samples))(t)
	if n := 1e6 / float64(countedDecisions); !slices.Equal(samples[0][0], sample{1, 2, 3, n}) || !slices.Equal(samples[0][1], sample{4, 5, 6, n}) {
		t.Errorf("got %v, want %v at the end of each sample", samples, n)
	}
	got := counted.unit.columns
	expect.True(t, len(got) == 4 && got[3] == instructions && len(r.unit.columns) == 3, "columns %v from %v", got, r.unit.columns)
	expect.Fails(t, expect.ErrorOf(e.count(r, []entry{{name: "nobody"}}, samples)), "an entry that does not exist")
}

// The instructions of the server are the difference between a server that makes more decisions and one that makes few.
func TestInstructionsOfTheServer(t *testing.T) {
	e := counting(t)
	r, ok := find("Redis, one decision of one caller, time in the script")
	must.True(t, ok, "there is no such row")
	samples := [][]sample{{{1}}}
	counted := must.Get(e.count(r, []entry{{name: redisRate}}, samples))(t)
	expect.Elements(t, samples[0][0], (sample{1, 1e6 / countedDecisions}), "samples[0][0]")
	n := len(counted.bounds) - len(r.bounds)
	expect.True(t, n == len(r.counts) && n != 0, "%d bounds more, want the %d of the new column", n, len(r.counts))
}
