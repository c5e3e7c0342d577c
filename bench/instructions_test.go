package main

import (
	"io"
	"os/exec"
	"slices"
	"testing"
)

func TestInstructionsAreCounted(t *testing.T) {
	path, err := exec.LookPath("valgrind")
	if err != nil {
		t.Skip("valgrind is not installed")
	}
	e := newEnv(t.Context(), 1, true, io.Discard)
	defer e.close()
	e.valgrind = path
	r, ok := find("Limiter.Take, one hot key")
	if !ok {
		t.Fatal("there is no such row")
	}
	samples := [][]sample{{{1, 2, 3}, {4, 5, 6}}}
	counted, err := e.count(r, []entry{{name: spillgate}}, samples)
	if err != nil {
		t.Fatal(err)
	}
	n := samples[0][0][3]
	if n < 200 || n > 20_000 || !slices.Equal(samples[0][1], sample{4, 5, 6, n}) {
		t.Errorf("got %v, want the instructions of one decision at the end of each sample", samples)
	}
	if got := counted.unit.columns; len(got) != 4 || got[3] != "instructions" || len(r.unit.columns) != 3 {
		t.Errorf("columns %v from %v", got, r.unit.columns)
	}
	if _, err := e.count(r, []entry{{name: "nobody"}}, samples); err == nil {
		t.Error("an entry that does not exist: no error")
	}
}
