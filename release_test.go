package spillgate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplaceDirectivesStayInTests checks that a program which imports the module gets what its tests had: replace directives
// count only in the main module.
func TestReplaceDirectivesStayInTests(t *testing.T) {
	inner, err := filepath.Glob("*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	tools, err := filepath.Glob("tools/*/go.mod")
	if err != nil || len(inner) < 2 || len(tools) == 0 {
		t.Fatal(inner, tools, err)
	}
	for _, path := range append(append(inner, tools...), "go.mod") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, to, replaces := strings.Cut(line, "=>")
			if replaces && (path == "go.mod" || strings.Trim(to, " ./\n") != "") {
				t.Errorf("%s: %s", path, line)
			}
		}
	}
}
