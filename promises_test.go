package spillgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// promisesPage has a table row for each promise of the documentation.
const promisesPage = "docs/testing-the-project.md"

// A promise is a row of promisesPage: what users rely on, and the test that fails without it.
type promise struct {
	text string
	test string // as the page has it, without backquotes
}

// promises returns the rows of all tables whose columns are "promise" and "test".
func promises(t *testing.T) (all []promise) {
	t.Helper()
	inTable := false
	for line := range strings.Lines(readText(t, promisesPage)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "| promise | test |":
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && line != "|---|---|":
			text, test, _ := strings.Cut(strings.Trim(line, "| "), " | ")
			all = append(all, promise{text, strings.Trim(test, "`")})
		}
	}
	return all
}

// testOfPromise matches a package and a test, a row of a test, or a row of a suite: dir: TestName, dir: TestName "row", dir: "row".
var testOfPromise = regexp.MustCompile(`^([\w./]+): (?:((?:Test|Fuzz)\w+)(?: ("[^"]+"))?|("[^"]+"))$`)

func TestPromisesHaveTests(t *testing.T) {
	all := promises(t)
	expect.AtLeast(t, len(all), 250, "%s has promises", promisesPage)
	dirs := make(map[string]*declarations)
	seen := make(map[string]bool)
	for _, p := range all {
		expect.True(t, !seen[p.text], "%s has this promise twice: %s", promisesPage, p.text)
		seen[p.text] = true
		found := testOfPromise.FindStringSubmatch(p.test)
		if found == nil {
			t.Errorf("%s: this promise has no test, got %q: %s", promisesPage, p.test, p.text)
			continue
		}
		dir := found[1]
		if dirs[dir] == nil {
			dirs[dir] = declarationsIn(t, dir)
		}
		test, row := found[2], strings.Trim(found[3]+found[4], `"`)
		if test != "" && !dirs[dir].tests[test] || row != "" && !dirs[dir].texts[row] {
			t.Errorf("%s: %s does not exist; does another test hold this promise? %s", promisesPage, p.test, p.text)
		}
	}
}

func TestPageListsFoldersOfE2E(t *testing.T) {
	page := readText(t, promisesPage)
	folders, err := filepath.Glob("e2e/*/doc.go")
	must.True(t, err == nil && len(folders) >= 10, "e2e has the folders %q, %v", folders, err)
	for _, path := range folders {
		name := filepath.Base(filepath.Dir(path))
		expect.Contains(t, page, "\n| `"+name+"` | ", "%s does not list e2e/%s", promisesPage, name)
	}
}

// declarations are the tests and the string literals in the files of a folder.
type declarations struct{ tests, texts map[string]bool }

func declarationsIn(t *testing.T, dir string) *declarations {
	t.Helper()
	d := &declarations{make(map[string]bool), make(map[string]bool)}
	paths := must.Get(filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go")))(t)
	expect.NotEqual(t, len(paths), 0, "%s names the package %s, which has no files", promisesPage, dir)
	for _, path := range paths {
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && strings.HasSuffix(path, "_test.go") {
					d.tests[n.Name.Name] = true
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					d.texts[text] = true
				}
			}
			return true
		})
	}
	return d
}
