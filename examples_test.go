package spillgate_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// withoutExample are exported funcs and methods that need no example: their first sentence says everything, or another side of their
// interface has the example, or they are for authors of adapters and stores, who find code in package comments.
var withoutExample = map[string][]string{
	"core": {
		"Algorithm.String", "CalendarUnit.String", "Limit.Capacity", "Limit.Width", "Claim.Compile", "Claim.Validate", "Settlement.Compile", "Settlement.Validate", "Must", "Limiter.Store", "Decision.OuterRulesOfSameName",
		"Guard.Admitted", "Guard.Decision", "Guard.End", "Guard.Request", "Guard.Settle", "Guard.Watches", "Limiter.Guard", "Limiter.MayWait", "NewContext", "Route", "WithoutDecision",
		"MemoryStore.Reset", "MemoryStore.Settle", "MemoryStore.Stats", "MemoryStore.Take", "MemoryStore.Validate",
	},
	"keyfunc":         {"ClientIP.Key"},
	"headers":         {"AppendViolated"},
	"client":          {"LimitedError.Error", "Transport.CloseIdleConnections", "Transport.RoundTrip"},
	"telemetry":       {"Telemetry.Attach", "Telemetry.FindKey", "Telemetry.Flush", "Telemetry.Limiters", "Telemetry.Observe"},
	"rulefile":        {"Read", "File.Needs", "Mistake.Error", "Mistake.Unwrap", "Mistakes.Count", "Mistakes.Error", "Mistakes.Unwrap"},
	"core/redisstore": {"Store.Denied", "Store.Reset", "Store.Settle", "Store.SharedState", "Store.Take", "Store.TakeLocal", "Store.Validate", "Store.Repaired", "Store.Via"},
}

var publicPackages = []string{
	"core", "core/redisstore", "core/storetest", "keyfunc", "headers", "client", "telemetry", "telemetry/otel", "telemetry/prometheus",
	"dashboard", "rulefile", "middleware/stdlib", "middleware/chi", "middleware/gin", "middleware/echo", "middleware/echov5", "middleware/mcp",
	"middleware/grpc",
}

// TestExportedFuncsHaveExamples looks for an example of each option, func and method. The package example counts as an example of New.
func TestExportedFuncsHaveExamples(t *testing.T) {
	for _, dir := range publicPackages {
		pkg := documented(t, dir)
		has := func(name string, examples []*doc.Example) {
			lacks := len(examples) == 0 && (name != "New" || len(pkg.Examples) == 0)
			if except := slices.Contains(withoutExample[dir], name); lacks && !except {
				t.Errorf("%s.%s has no example", dir, name)
			} else if !lacks && except {
				t.Errorf("%s.%s has an example: remove it from the list", dir, name)
			}
		}
		for _, f := range pkg.Funcs {
			has(f.Name, f.Examples)
		}
		for _, typ := range pkg.Types {
			for _, f := range typ.Funcs {
				has(f.Name, f.Examples)
			}
			for _, f := range typ.Methods {
				has(typ.Name+"."+f.Name, f.Examples)
			}
		}
		first, _, _ := strings.Cut(pkg.Doc, "\n\n# ")
		expect.Contains(t, first, "\n\t", "the package comment of %s has no code before its first heading", dir)
	}
}

// documented returns the documentation of a package.
func documented(t *testing.T, dir string) *doc.Package {
	t.Helper()
	paths, err := filepath.Glob(dir + "/*.go")
	must.True(t, err == nil && len(paths) != 0, "%v, %v, %v", dir, paths, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		file := must.Get(parser.ParseFile(set, path, nil, parser.ParseComments))(t)
		files = append(files, file)
	}
	return must.Get(doc.NewFromFiles(set, files, dir))(t)
}
