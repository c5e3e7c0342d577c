package spillgate_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// parents are folders of which docs/architecture.md names those in them.
var parents = []string{"cmd", "internal"}

// TestArchitectureNamesEachFolder compares the tree in docs/architecture.md with the folders, but for bin, which make builds.
func TestArchitectureNamesEachFolder(t *testing.T) {
	tree := documentedFolders(t)
	for _, folder := range tree {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Errorf("docs/architecture.md has %s, which is no folder", folder)
		}
	}
	for _, pattern := range []string{"*", "core/*", "internal/*", "cmd/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			info, err := os.Stat(name)
			if err != nil || !info.IsDir() || filepath.Base(name) == "testdata" || name == "bin" || strings.HasPrefix(name, ".") || slices.Contains(parents, name) {
				continue
			}
			if !slices.Contains(tree, name) {
				t.Errorf("docs/architecture.md lacks the folder %s", name)
			}
		}
	}
}

// documentedFolders returns the folders of the tree. A folder that is indented lies in the one above that is not.
func documentedFolders(t *testing.T) (folders []string) {
	text := readText(t, "docs/architecture.md")
	_, tree, _ := strings.Cut(text, "```\n")
	tree, _, ok := strings.Cut(tree, "```\n")
	if !ok {
		t.Fatal("docs/architecture.md has no tree")
	}
	top := ""
	for _, line := range strings.Split(strings.TrimSpace(tree), "\n") {
		for _, word := range strings.Fields(line) {
			name, ok := strings.CutSuffix(word, "/")
			if !ok {
				break // the text about the folders
			}
			if strings.HasPrefix(line, "  ") {
				name = top + "/" + name
			} else {
				top = name
			}
			folders = append(folders, name)
		}
	}
	return folders
}

var namedFile = regexp.MustCompile("`([a-z/_]+(?:\\.go)?)`")

// TestArchitectureNamesFilesThatExist checks the files on the way of a request.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	text := readText(t, "docs/architecture.md")
	names := namedFile.FindAllStringSubmatch(text, -1)
	for _, name := range names {
		if _, err := os.Stat(name[1]); err != nil {
			t.Error(err)
		}
	}
	if len(names) < 12 {
		t.Errorf("found %d names of files, want those of each step", len(names))
	}
	if lines := strings.Count(text, "\n"); lines > 100 {
		t.Errorf("docs/architecture.md has %d lines, want two screens", lines)
	}
}

// TestProgramsOfPackageComments checks that the first programs in godoc are also examples, which the compiler has
// checked.
func TestProgramsOfPackageComments(t *testing.T) {
	examples := compiledSource(t)
	for _, file := range []string{"doc.go", "core/doc.go"} {
		text := readText(t, file)
		program := programIn(text)
		if _, err := parser.ParseFile(token.NewFileSet(), file, program, parser.AllErrors); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		_, body, ok := strings.Cut(program, "func main() {")
		if body = squeeze(strings.TrimSuffix(strings.TrimSpace(body), "}")); !ok || !strings.Contains(examples, body) {
			t.Errorf("%s: no example has the body of its program:\n%s", file, body)
		}
	}
}

// programIn returns the first indented block of a package comment.
func programIn(source string) string {
	var program strings.Builder
	for _, line := range strings.Split(source, "\n") {
		switch code, ok := strings.CutPrefix(line, "//\t"); {
		case ok:
			program.WriteString(code + "\n")
		case line == "//" && program.Len() > 0:
			program.WriteString("\n")
		case program.Len() > 0:
			return program.String()
		}
	}
	return program.String()
}
