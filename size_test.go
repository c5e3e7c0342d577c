package spillgate_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The most lines of a file of the inner packages, of any other file, and of a function outside tests.
const maxInner, maxFile, maxFunction = 220, 250, 40

// inner are the packages that the library consists of.
var inner = []string{"core", "internal/algorithm", "internal/memory", "internal/redisx"}

// checkLength fails the test if a file or function has too many lines.
func checkLength(t *testing.T, name string, lines, most int) {
	t.Helper()
	if lines > most {
		t.Errorf("%s has %d lines, want at most %d", name, lines, most)
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	files, functions := make(map[string]int), make(map[string]int) // by package
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch ext := filepath.Ext(path); {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || ext != ".go" && ext != ".lua" && ext != ".js":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		most, dir := maxFile, strings.TrimSuffix(filepath.Dir(path), "/lua")
		if slices.Contains(inner, dir) {
			most = maxInner
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			functions[dir] += checkFunctions(t, path, text)
		}
		files[dir]++
		checkLength(t, path, bytes.Count(text, []byte("\n")), most)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range inner {
		if files[dir] == 0 || functions[dir] == 0 {
			t.Errorf("%s: looked at %d files and %d functions", dir, files[dir], functions[dir])
		}
	}
}

// checkFunctions fails the test if a function of a file has too many lines, and returns how many functions there are.
func checkFunctions(t *testing.T, path string, text []byte) (functions int) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		functions++
		checkLength(t, path+": "+f.Name.Name, set.Position(f.End()).Line-set.Position(f.Pos()).Line+1, maxFunction)
	}
	return functions
}
