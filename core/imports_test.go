package core_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
)

const module = "github.com/spillgate/spillgate/"

// importRules say what the packages below a directory may import besides the standard library, by prefix. The first
// rule that fits a directory counts. Imports of tests are free.
var importRules = []struct {
	dir     string
	allowed []string
}{
	{"core/redisstore", []string{module + "core", module + "internal/redisx", goRedis}},
	{"core/storetest", []string{module + "core", module + "internal/"}},
	{"core", []string{module + "internal/algorithm", module + "internal/breaker", module + "internal/calendar", module + "internal/compiled", module + "internal/deadline", module + "internal/logger", module + "internal/memory", module + "internal/nearest", module + "internal/routes", module + "internal/usage"}},
	{"internal/algorithm", nil},
	{"internal/breaker", nil},
	{"internal/calendar", nil},
	{"internal/compiled", []string{module + "internal/algorithm"}},
	{"internal/deadline", nil},
	{"internal/fields", []string{module + "core"}},
	{"internal/logger", nil},
	{"internal/memory", []string{module + "internal/algorithm"}},
	{"internal/lease", []string{module + "core", module + "internal/algorithm", module + "internal/compiled", module + "internal/recent"}},
	{"internal/redisx", []string{module + "core", module + "internal/algorithm", module + "internal/breaker", module + "internal/compiled", module + "internal/deadline", module + "internal/lease", module + "internal/recent", goRedis}},
	{"internal/usage", nil},
	{"internal/recent", nil},
	{"internal/routes", []string{module + "internal/nearest"}},
	{"keyfunc", []string{module + "core"}},
	{"headers", []string{module + "core", module + "internal/fields"}},
	{"client", nil},
	{"telemetry/otel", []string{module + "core", module + "telemetry", openTelemetry}},
	{"telemetry/prometheus", []string{module + "core", module + "telemetry", prometheus}},
	{"telemetry", []string{module + "core"}},
	{"dashboard", []string{module + "internal/charts", module + "core", module + "telemetry"}},
	{"rulefile", []string{module + "core", module + "keyfunc", module + "internal/logger", module + "internal/nearest", module + "internal/routes", goYAML}},
	{"middleware/internal/adaptertest", []string{module + "core", module + "headers", module + "keyfunc", module + "internal/expect", module + "internal/ipcases", module + "internal/must", module + "internal/routes", module + "middleware/internal/"}},
	{"middleware/internal/seen", []string{module + "core", module + "keyfunc"}},
	{"middleware/internal", adapter(module + "internal/fields")},
	{"middleware/stdlib", adapter(module + "internal/usage")},
	{"middleware/chi", adapter("github.com/go-chi/chi/v5", module+"middleware/stdlib")},
	{"middleware/gin", adapter("github.com/gin-gonic/gin")},
	{"middleware/grpc", adapter("google.golang.org/grpc", "google.golang.org/protobuf", module+"internal/fields")},
	{"middleware/echo", adapter("github.com/labstack/echo/v4")},
	{"middleware/echov5", adapter("github.com/labstack/echo/v5")},
	{"middleware/mcp", adapter("github.com/modelcontextprotocol/go-sdk")},
}

const (
	goRedis       = "github.com/redis/go-redis/v9"
	goYAML        = "github.com/goccy/go-yaml"
	openTelemetry = "go.opentelemetry.io/otel"
	prometheus    = "github.com/prometheus/client_golang"
)

// only says which directories have the packages that may import a module.
var only = map[string][]string{
	"github.com/redis":                {"internal/redisx", "internal/redistest", "core/redisstore", "cmd"},
	"go.opentelemetry.io":             {"telemetry/otel", "cmd"},
	"github.com/prometheus":           {"telemetry/prometheus", "cmd"},
	goYAML:                            {"rulefile"},
	"github.com/gin-gonic":            {"middleware/gin", "cmd"},
	"github.com/go-chi":               {"middleware/chi", "cmd"},
	"github.com/labstack":             {"middleware/echo", "middleware/echov5", "cmd"},
	"google.golang.org":               {"middleware/grpc", "cmd"},
	"github.com/modelcontextprotocol": {"middleware/mcp"},
	"github.com/alicebob":             nil, // for tests
	"pgregory.net/rapid":              nil,
}

func adapter(framework ...string) []string {
	return append(framework, module+"core", module+"headers", module+"middleware/internal/")
}

// importsOf returns what the Go files of the released modules import that are not tests, by directory.
func importsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipDir(root, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			found[filepath.ToSlash(dir)] = append(found[filepath.ToSlash(dir)], imported)
		}
		return err
	})
	must.Do(t, err)
	return found
}

// skipDir skips hidden directories, test data and the modules that are not released.
func skipDir(root, name string) error {
	if name == root {
		return nil
	}
	base := filepath.Base(name)
	if strings.HasPrefix(base, ".") || slices.Contains([]string{"testdata", "bench", "e2e", "tools"}, base) {
		return fs.SkipDir
	}
	return nil
}

// below reports whether p is dir or in it. A dir that ends in a slash is not in itself.
func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func TestImports(t *testing.T) {
	found := importsOf(t, "..")
	must.True(t, len(found["core"]) != 0, "no imports of core: looked at %v", found)
	for dir, imports := range found {
		for _, imported := range imports {
			for _, rule := range importRules {
				if !below(dir, rule.dir) {
					continue
				}
				if !standard(imported) && !slices.ContainsFunc(rule.allowed, func(ok string) bool { return allows(ok, imported) }) {
					t.Errorf("%s imports %s, and may import only the standard library and %q", dir, imported, rule.allowed)
				}
				break
			}
			for third, dirs := range only {
				if below(imported, third) && !slices.ContainsFunc(dirs, func(ok string) bool { return below(dir, ok) }) {
					t.Errorf("%s imports %s, which only %q may", dir, imported, dirs)
				}
			}
		}
	}
}

// allows reports whether a rule allows an import: a package of this module by its exact path, unless the rule ends in a
// slash; a package of another with all below it.
func allows(rule, imported string) bool {
	if strings.HasPrefix(rule, module) && !strings.HasSuffix(rule, "/") {
		return imported == rule
	}
	return below(imported, rule)
}

// A program with net/http links this module and the standard library.
func TestStdlibLinksNoOtherModule(t *testing.T) {
	found := importsOf(t, "..")
	for _, start := range []string{"core", "keyfunc", "headers", "client", "telemetry", "dashboard", "middleware/stdlib"} {
		seen := map[string]bool{start: true}
		for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
			for _, imported := range found[queue[0]] {
				dir, own := strings.CutPrefix(imported, module)
				switch {
				case !own && !standard(imported):
					t.Errorf("%s links %s through %s", start, imported, path.Join(module, queue[0]))
				case own && !seen[dir]:
					seen[dir] = true
					queue = append(queue, dir)
				}
			}
		}
	}
}
