package spillgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestPageListsLogMessages looks in docs/operate.md for each message that a package logs.
func TestPageListsLogMessages(t *testing.T) {
	page := readText(t, "docs/operate.md")
	messages := 0
	for _, dir := range []string{"core", "internal/redisx", "rulefile", "telemetry", "middleware/internal/call"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				for _, message := range messagesOf(t, path) {
					messages++
					expect.Contains(t, page, "| `"+message+"` |", "%s logs %q, which docs/operate.md does not list", path, message)
				}
			}
			return err
		})
		must.Do(t, err)
	}
	listed := strings.Count(page, "\n| Warn") + strings.Count(page, "\n| Info") + strings.Count(page, "\n| Error")
	expect.True(t, messages == listed, "docs/operate.md lists %d messages, and %d are logged", listed, messages)
}

// messagesOf returns the messages that a file logs: texts that begin with the name of the module, in files that import
// slog, apart from formats of errors, and the constants of telemetry.
func messagesOf(t *testing.T, path string) (all []string) {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
	logs := false
	for _, i := range file.Imports {
		logs = logs || i.Path.Value == `"log/slog"`
	}
	constants := path == filepath.Join("telemetry", "log.go")
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && logs && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			if err == nil && len(text) > len("spillgate: ") && strings.HasPrefix(text, "spillgate: ") && !strings.Contains(text, "%w") {
				all = append(all, text)
			}
		}
		if spec, ok := n.(*ast.ValueSpec); ok && constants {
			for _, v := range spec.Values {
				if literal, ok := v.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, _ := strconv.Unquote(literal.Value)
					all = append(all, text)
				}
			}
		}
		return true
	})
	return all
}
