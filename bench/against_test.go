package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// In this test both programs are the same, so it checks the turns, not the numbers.
func TestTwiceMeasuresBothPrograms(t *testing.T) {
	program := must.Get(thisProgram())(t)
	e := newEnv(t.Context(), 1, true, io.Discard)
	for _, name := range []string{"Redis, 64 callers", "Redis, processor time of the server"} {
		r, ok := find(name)
		must.True(t, ok, "no row is called %q", name)
		o := must.Get(e.run(twice(r, program, program)))(t)
		expect.True(t, len(o.results) == 2 && o.results[0].name == spillgate && o.results[1].name == before(spillgate) && len(o.checks) == 1,
			"%s: got %+v and bounds %+v, want the entry of ours twice and one bound", name, o.results, o.checks)
		expect.Contains(t, o.checks[0].bound, map[bool]string{true: "at least 0.95×", false: "at most 1.05×"}[r.unit.more], "%s: the bound", name)
		if text := turns(o); strings.Count(text, "| spillgate |") != len(r.unit.columns) {
			t.Errorf("want a line for each of %v, got\n%s", r.unit.columns, text)
		}
	}
	_, err := e.run(twice(&row{name: "nothing"}, program, program))
	expect.True(t, err != nil && strings.Contains(err.Error(), `"nothing"`), "a row that does not exist: %v", err)
}

func TestTurnsHaveRatios(t *testing.T) {
	o := &outcome{row: &row{name: "a row", unit: perDecision}, results: []result{
		{spillgate, ours, sample{30, 2, 64}}, {before(spillgate), note, sample{20, 0, 32}},
	}}
	for _, line := range []string{"### a row\n", "| spillgate | ns/decision | 30.0 | 20.0 | 1.50 |\n", "| spillgate | allocs | 2.00 | 0 |  |\n", "| spillgate | bytes | 64.0 | 32.0 | 2.00 |\n"} {
		text := turns(o)
		expect.True(t, strings.Contains(text, line), "%q is missing in\n%s", line, text)
	}
}

func TestModulesThatAreMissingAreDropped(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	}
	write("there/go.mod", "module x/there\n")
	write("bench/go.mod", "module x/bench\n\ngo 1.26.0\n\nrequire (\n\tx/there v0.0.0\n\tx/gone v0.0.0\n)\n\nreplace (\n\tx/there => ../there\n\tx/gone => ../gone\n)\n")
	must.Do(t, dropMissing(t.Context(), filepath.Join(root, "bench")))
	text, err := os.ReadFile(filepath.Join(root, "bench", "go.mod"))
	expect.True(t, err == nil && strings.Count(string(text), "x/there") == 2 && !strings.Contains(string(text), "x/gone"),
		"got %v\n%s", err, text)
}

func TestSourcesAreOfACommitButForTheBench(t *testing.T) {
	if err := exec.Command("git", "-C", "..", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("not in a repository")
	}
	dir := t.TempDir()
	must.Do(t, sources(t.Context(), "HEAD", dir))
	now := must.Get(os.ReadFile("against.go"))(t)
	for _, name := range []string{"go.mod", "core/limit.go"} {
		expect.NoError(t, expect.ErrorOf(os.Stat(filepath.Join(dir, name))), "Stat")
	}
	expect.Equal(t, string(must.Get(os.ReadFile(filepath.Join(dir, "bench", "against.go")))(t)), string(now), "the copy of the bench differs")
	expect.Fails(t, sources(t.Context(), "no-such-commit", t.TempDir()), "a commit that does not exist")
}
