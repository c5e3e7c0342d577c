package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// module is a module whose test does not check the bound.
var module = map[string]string{
	"go.mod": "module tiny\n\ngo 1.26\n",
	"tiny.go": `package tiny

func clip(n int) int {
	if n > 10 {
		n = 10
	}
	return n
}
`,
	"tiny_test.go": `package tiny

import "testing"

func TestClip(t *testing.T) {
	if clip(5) != 5 || clip(15) != 10 {
		t.Fail()
	}
}

func TestClipAtTheBound(t *testing.T) {
	if clip(11) != 10 {
		t.Fail()
	}
}
`,
}

// tiny returns a job for the module with these accepted mutants. Its first build compiles the standard library, which
// takes minutes on a busy machine.
func tiny(t *testing.T, accepts string) *job {
	dir := t.TempDir()
	for name, text := range module {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, err := readAccepted(accepts)
	if err != nil {
		t.Fatal(err)
	}
	return &job{
		root: dir, targets: []target{{"tiny.go", []suite{{pkg: ".", first: "TestClip$", skip: "none"}}}}, accepted: a, match: regexp.MustCompile(""), workers: 1, timeout: 10 * time.Minute,
		progress: new(progress),
	}
}

const equivalent = "tiny.go: if n > 10 {: > becomes >=\n\t10 clipped to 10 is 10.\n"

func TestRun(t *testing.T) {
	for name, row := range map[string]struct {
		accepts string
		faults  []string // named in the error
		results []string
	}{
		"a survivor is an error": {
			"", []string{"survived: tiny.go: if n > 10 {: > becomes >="},
			[]string{"killed   tiny.go:4: drop if n > 10 { ..", "survived tiny.go:4: > becomes >=", "killed   tiny.go:5: drop n = 10"},
		},
		"unless it is accepted": {equivalent, nil, []string{"accepted tiny.go:4: > becomes >=", "killed   tiny.go:4: > becomes <="}},
		"what is not there must not be accepted": {
			equivalent + "tiny.go: if n > 11 {: > becomes >=\n\twhy\n", []string{"no such mutant: tiny.go: if n > 11 {"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := tiny(t, row.accepts).run(&out)
			if (err == nil) != (row.faults == nil) {
				t.Errorf("error %v", err)
			}
			for _, fault := range row.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("error %v, want %q", err, fault)
				}
			}
			for _, result := range row.results {
				if !strings.Contains(out.String(), result+"\n") {
					t.Errorf("no %q in\n%s", result, out.String())
				}
			}
		})
	}
}

func TestSkippedTestsKillNothing(t *testing.T) {
	j := tiny(t, "")
	j.targets[0].suites[0].first, j.targets[0].suites[0].skip, j.match = "", "TestClip", regexp.MustCompile("drop n")
	if err := j.run(new(strings.Builder)); err == nil || !strings.Contains(err.Error(), "survived") {
		t.Errorf("error %v", err)
	}
}

func TestTestsThatFailWithoutAMutantAreAnError(t *testing.T) {
	j := tiny(t, "")
	text := strings.Replace(module["tiny_test.go"], "clip(11) != 10", "clip(11) != 9", 1)
	if err := os.WriteFile(filepath.Join(j.root, "tiny_test.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := j.run(new(strings.Builder)); err == nil || !strings.Contains(err.Error(), "without an edit") {
		t.Errorf("error %v", err)
	}
}

func TestMutantThatHangsIsStopped(t *testing.T) {
	j := tiny(t, "")
	text := strings.Replace(module["tiny.go"], "n = 10", "for n = 10; n < 10; {\n\t\t}", 1)
	if err := os.WriteFile(filepath.Join(j.root, "tiny.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	j.match = regexp.MustCompile("n < 10; {: < becomes <=")
	var out strings.Builder
	if err := j.run(&out); err != nil || !strings.Contains(out.String(), "timeout ") {
		t.Errorf("error %v in\n%s", err, out.String())
	}
}

func TestKilledMutantIsNotTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "killed")
	run := func(tests string) string {
		j := tiny(t, "")
		j.targets[0].suites[0].first, j.targets[0].suites[0].skip = "", tests
		var err error
		if j.progress, err = openProgress(path); err != nil {
			t.Fatal(err)
		}
		defer j.progress.file.Close()
		var out strings.Builder
		_ = j.run(&out) // the survivors are printed as well
		return out.String()
	}
	const counts = "map[killed:3 survived:1]"
	if out := run("none"); !strings.Contains(out, counts) {
		t.Error(out)
	}
	if out := run("TestClip"); !strings.Contains(out, counts) {
		t.Errorf("without a test:\n%s", out)
	}
}

func TestRecentKeepsTheLastFewTests(t *testing.T) {
	var r recent
	for _, name := range []string{"A", "B", "C", "A", "D"} {
		r.note("pkg", name)
	}
	if got, want := r.tests("pkg"), []string{"-test.run=^D$", "-test.run=^A$", "-test.run=^C$"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPatch(t *testing.T) {
	const text = "-- why\na < b\n"
	for _, row := range []struct{ why, binary, instead, want string }{
		{"a longer text takes from the comment", "x" + text + "y", "-- why\na <= b\n", "x-- wh\na <= b\ny"},
		{"a shorter one gives to it", "x" + text + "y", "-- why\na b\n", "x-- why  \na b\ny"},
		{"there must be enough", "x" + text + "y", "-- why\na < bcdefg\n", ""},
		{"of a comment", "x" + text + "y", "a < b\n", ""},
		{"what is not there cannot change", "xy", "-- why\na <= b\n", ""},
		{"nor what is there twice", text + text, "-- why\na <= b\n", ""},
	} {
		got, err := patch([]byte(row.binary), text, row.instead)
		if string(got) != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%s: %q, %v, want %q", row.why, got, err, row.want)
		}
	}
}

func TestLuaMutants(t *testing.T) {
	const text = `-- a < b
local function f(a, b) -- a > b
  local kept = '<'
  if a ~= 1 and b <= 2 then
    a = max(a, b)
    return nil
  end
  g(function()
    return {
      a - b,
    }
  end)
end
`
	want := []string{
		"if a ~= 1 and b <= 2 then: ~= becomes ==", "if a ~= 1 and b <= 2 then: and becomes or", "if a ~= 1 and b <= 2 then: <= becomes <",
		"if a ~= 1 and b <= 2 then: <= becomes >", "a = max(a, b): drop a = max(a, b)", "a = max(a, b): max becomes min",
		"return nil: drop return nil", "a - b,: - becomes +",
	}
	mutants, err := mutantsOf(target{file: "x.lua"}, text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		got = append(got, strings.TrimPrefix(m.String(), "x.lua: "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAcceptedNeedsReasons(t *testing.T) {
	for _, text := range []string{"a\nb\n\twhy\n", "\twhy\n", "a\n\twhy\na\n\twhy\n"} {
		if _, err := readAccepted(text); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.go", "a_test.go", "b.go", "c.lua"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	first, second := []suite{{pkg: "first"}}, []suite{{pkg: "second"}}
	got, err := expand(dir, []target{{"b.go", first}, {"*.go", second}})
	want := []target{{"b.go", first}, {"a.go", second}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := expand(dir, []target{{file: "d.go"}}); err == nil {
		t.Error("no error for a pattern that matches nothing")
	}
}
