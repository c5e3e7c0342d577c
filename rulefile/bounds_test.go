package rulefile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/rulefile"
)

// Files that would exhaust the stack or the memory of a parser without bounds, or keep it busy for minutes.
func TestFilesAreBounded(t *testing.T) {
	bomb := "x-0: &a0 [1/s, 1/m]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("x-%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	tests := []struct{ why, src, want string }{
		{"too long", strings.Repeat("#", 1<<20) + "\n", "the file has 1048577 bytes, at most 1048576 are read"},
		{"too many words", strings.Repeat("- a\n", 110_000), "too many words"},
		{"brackets", "rules: " + strings.Repeat("[", 100_000), "nested too deep"},
		{"braces", "rules: " + strings.Repeat("{a: ", 50_000), "nested too deep"},
		{"dashes", strings.Repeat("- ", 90_000), "nested too deep"},
		{"question marks", strings.Repeat("? ", 90_000), "nested too deep"},
		{"question marks in brackets", "[" + strings.Repeat("? ", 90_000), "nested too deep"},
		{"anchors", "a: " + strings.Repeat("&a ", 90_000), "nested too deep"},
		{"tags", "a: " + strings.Repeat("!a ", 90_000), "nested too deep"},
		{"indentation", deep(600), "indented too far"},
		{"aliases", bomb + "rules: *a30\n", "aliases make the file too large"},
		{"keys", "rules: [{limits: 1/s, key: " + strings.Repeat("first(", 1000) + "}]", "this key is nested too deep"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			_, err := rulefile.Parse([]byte(tt.src), program)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %.300s, want %q", fmt.Sprint(err), tt.want)
			}
		})
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	for _, tt := range badFiles {
		f.Add(tt.src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		file, err := rulefile.Parse([]byte(src), program)
		if err == nil {
			if _, err := core.New(file.Rules); err != nil {
				t.Fatalf("%q: core.New does not take the rules: %v", src, err)
			}
			return
		}
		mistakes, ok := errors.AsType[rulefile.Mistakes](err)
		if !ok || len(mistakes) == 0 || file != nil {
			t.Fatalf("%q: got %v, %v", src, file, err)
		}
		for _, m := range mistakes {
			if m.Line < 1 || m.Column < 1 || m.Text == "" || strings.Count(m.Error(), "\n") != 2 {
				t.Fatalf("%q: got %+v", src, m)
			}
		}
	})
}

// thousandRules is a file of 1,000 rules.
func thousandRules() []byte {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  - name: login%d\n    match: [\"POST /s%d/login\", \"POST /v1/s%d/{tenant}/login\"]\n    headers: {X-Plan: pro}\n", i, i, i)
		b.WriteString("    key: first(apikey(X-Api-Key), ip)\n    limits: 5/10m, 20/d\n    on_failure: closed\n")
	}
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	src := thousandRules()
	for b.Loop() {
		if _, err := rulefile.Parse(src, program); err != nil {
			b.Fatal(err)
		}
	}
}
