// Package spillgate_test checks that the snippets of README.md and docs/ are Examples.
package spillgate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestSnippetsCompile looks for each Go snippet in the bodies of the examples, which the compiler has checked.
func TestSnippetsCompile(t *testing.T) {
	examples := exampleSource(t)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	snippets := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
			snippets++
			if !strings.Contains(examples, squeeze(block[1])) {
				t.Errorf("%s: no example has this snippet:\n%s", page, block[1])
			}
		}
	}
	if snippets < 10 {
		t.Errorf("found %d snippets, want at least the 10 of README.md", snippets)
	}
}

// exampleSource returns the text of all example files, squeezed.
func exampleSource(t *testing.T) string {
	var all strings.Builder
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "example_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.WriteString(squeeze(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// squeeze makes text comparable whatever its indentation.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
