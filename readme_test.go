// Package spillgate_test checks that the snippets of README.md and docs/ compile as they stand.
package spillgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/moving/*.md"} {
		found, err := filepath.Glob(pattern)
		must.True(t, err == nil && len(found) != 0, "%s: %v, %v", pattern, found, err)
		all = append(all, found...)
	}
	return all
}

// TestSnippetsCompile looks for each Go snippet in files that the compiler checks. Outside of README.md, whose snippets are a few lines
// long, it also checks that the snippet needs nothing else of its file: it begins with its imports, or is a program, and declares all
// that it uses.
func TestSnippetsCompile(t *testing.T) {
	compiled := compiledSource(t)
	snippets := 0
	for _, page := range pages(t) {
		for _, block := range goBlock.FindAllStringSubmatch(string(must.Get(os.ReadFile(page))(t)), -1) {
			snippets++
			expect.Contains(t, compiled, squeeze(block[1]), "%s: no example or program has this snippet:\n%s", page, block[1])
			if lacking := lacks(t, block[1]); len(lacking) > 0 && page != "README.md" {
				t.Errorf("%s: this snippet does not stand alone, see %q:\n%s", page, lacking, block[1])
			}
		}
	}
	expect.AtLeast(t, snippets, 30, "found snippets")
}

// TestFirstScreen checks that README.md begins with a whole program of at most 16 lines, and shows both commands within 60 lines.
func TestFirstScreen(t *testing.T) {
	text := must.Get(os.ReadFile("README.md"))(t)
	program := goBlock.FindStringSubmatch(string(text))[1]
	if n := strings.Count(program, "\n"); n > 16 || !strings.HasPrefix(program, "package main\n") || len(lacks(t, program)) > 0 {
		t.Errorf("the first snippet of README.md has %d lines, want a program of at most 16:\n%s", n, program)
	}
	screen := strings.Join(strings.SplitN(string(text), "\n", 61)[:60], "\n")
	for _, want := range []string{"curl ", "git clone ", "\nmake demo ", "\nmake test "} {
		expect.True(t, strings.Contains(screen, want), "README.md does not show %q within its first 60 lines", want)
	}
}

// compiledSource returns the text of all example files, and of the programs in e2e/docs, squeezed.
func compiledSource(t *testing.T) string {
	var all strings.Builder
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		program := strings.HasPrefix(path, "e2e/docs/") && strings.HasSuffix(path, "main.go")
		if err != nil || !program && !strings.HasSuffix(path, "example_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.WriteString(squeeze(string(text)) + " ")
		return err
	})
	must.Do(t, err)
	return all.String()
}

// squeeze removes indentation, so that texts can be compared.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// lacks returns the names that a snippet uses without declaring or importing them, and the imports that it does not use.
func lacks(t *testing.T, snippet string) (lacking []string) {
	t.Helper()
	if !strings.HasPrefix(snippet, "package ") {
		snippet = "package snippet\n" + snippet
	}
	file, err := parser.ParseFile(token.NewFileSet(), "snippet.go", snippet, 0)
	if err != nil {
		return []string{err.Error()}
	}
	unresolved := make(map[string]bool)
	for _, id := range file.Unresolved {
		if types.Universe.Lookup(id.Name) == nil {
			unresolved[id.Name] = true
		}
	}
	imported := make(map[string]bool)
	for _, spec := range file.Imports {
		used := false
		for _, name := range namesOf(spec) {
			used = used || unresolved[name]
			imported[name] = true
		}
		if !used {
			lacking = append(lacking, spec.Path.Value)
		}
	}
	for name := range unresolved {
		if !imported[name] {
			lacking = append(lacking, name)
		}
	}
	return lacking
}

// namesOf returns the names that an import may have in a file.
func namesOf(spec *ast.ImportSpec) []string {
	if spec.Name != nil {
		return []string{spec.Name.Name}
	}
	p, _ := strconv.Unquote(spec.Path.Value)
	last := path.Base(p)
	if strings.Trim(last, "v0123456789") == "" {
		last = path.Base(path.Dir(p))
	}
	short := strings.TrimSuffix(strings.TrimPrefix(last, "go-"), "v5")
	return []string{last, short, short + "limit"}
}

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestRulesInPagesHaveNoMistakes(t *testing.T) {
	files := 0
	for _, page := range pages(t) {
		for _, block := range yamlBlock.FindAllStringSubmatch(string(must.Get(os.ReadFile(page))(t)), -1) {
			if !strings.Contains(block[1], "rules:\n") || strings.Contains(block[1], "alert:") {
				continue // of Prometheus
			}
			files++
			expect.NoError(t, expect.ErrorOf(rulefile.Check(page, []byte(block[1]))), "Check")
		}
	}
	expect.NotEqual(t, files, 0, "no page shows rules")
}

// TestLinksLeadSomewhere checks the links of each page to files of the repository and to headings.
func TestLinksLeadSomewhere(t *testing.T) {
	known := make(map[string]map[string]bool) // anchors
	for _, page := range append(pages(t), "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "llms.txt") {
		for _, m := range link.FindAllStringSubmatch(string(must.Get(os.ReadFile(page))(t)), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if anchor != "" && known[target] == nil {
				known[target] = anchors(t, target)
			}
			expect.True(t, anchor == "" || known[target][anchor], "%s: %s has no heading #%s", page, target, anchor)
		}
	}
}

func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	found := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		found[strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

// readText returns the contents of a file.
func readText(t *testing.T, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(path))(t))
}

// TestEveryPageIsListed checks that llms.txt lists each page of docs/.
func TestEveryPageIsListed(t *testing.T) {
	list := readText(t, "llms.txt")
	for _, page := range pages(t) {
		expect.Contains(t, list, "("+filepath.ToSlash(page)+")", "llms.txt does not list %s", page)
	}
}
