package spillgate_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The most lines of a file, tests included, and of a function in the inner packages.
const maxFile, maxFunction = 220, 40

// stillLonger lists what is to be shortened, with its most lines until then.
var stillLonger = map[string]int{
	"internal/memory/known.go: takeKnown": 49,
}

// checkLength fails the test if a file or function has too many lines.
func checkLength(t *testing.T, name string, lines, most int) {
	t.Helper()
	if most = max(most, stillLonger[name]); lines > most {
		t.Errorf("%s has %d lines, want at most %d", name, lines, most)
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, dir := range []string{"core", "internal/algorithm", "internal/memory", "internal/redisx"} {
		files, functions := 0, 0
		for _, pattern := range []string{"*.go", "lua/*.lua"} {
			paths, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				files++
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				checkLength(t, path, bytes.Count(text, []byte("\n")), maxFile)
				if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
					functions += checkFunctions(t, path, text)
				}
			}
		}
		if files == 0 || functions == 0 {
			t.Errorf("%s: looked at %d files and %d functions", dir, files, functions)
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
