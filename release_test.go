package spillgate_test

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

const modulePath = "github.com/spillgate/spillgate"

// requirements are what the released modules require besides each other: the lowest versions that work, each with the API
// that needs it. A program that imports a module gets at least these versions, so a higher one raises what the program had.
var requirements = map[string]map[string]string{
	".": {
		"github.com/go-chi/chi/v5 v5.0.8":     "RoutePattern without a trailing slash",
		"github.com/goccy/go-yaml v1.17.1":    "parser.AllowDuplicateMapKey, MapKeyNode.IsMergeKey",
		"github.com/redis/go-redis/v9 v9.6.1": "before, requests fail while slots of a Cluster move: TestLeasesWhileSlotsMove",
	},
	"middleware/gin":       {"github.com/gin-gonic/gin v1.9.0": "IRoutes.Match, in tests"},
	"middleware/grpc":      {"google.golang.org/grpc v1.57.0": "before, genproto has packages of genproto/googleapis/rpc too", "google.golang.org/protobuf v1.30.0": "as grpc"},
	"middleware/echo":      {"github.com/labstack/echo/v4 v4.10.2": "a request that no route matches has no path"},
	"middleware/echov5":    {"github.com/labstack/echo/v5 v5.0.0": "the first version 5"},
	"middleware/mcp":       {"github.com/modelcontextprotocol/go-sdk v1.7.0": "before, clients of a stateless server chose their session: TestKeys"},
	"telemetry/otel":       {"go.opentelemetry.io/otel v1.20.0": "metric.WithExplicitBucketBoundaries", "go.opentelemetry.io/otel/metric v1.20.0": "as above", "go.opentelemetry.io/otel/trace v1.20.0": "as above"},
	"telemetry/prometheus": {"github.com/prometheus/client_golang v1.11.1": "older versions have CVE-2022-21698"},
}

// onlyTests are requirements that only tests link.
var onlyTests = []string{
	"github.com/alicebob/miniredis/v2", "go.uber.org/goleak", "pgregory.net/rapid",
	"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/sdk/metric",
}

// A goMod is what `go mod edit -json` prints.
type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old, New struct{ Path string } }
}

func modules(t *testing.T) map[string]goMod {
	t.Helper()
	all := make(map[string]goMod)
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod"} {
		for _, file := range must.Get(filepath.Glob(pattern))(t) {
			out, err := exec.Command("go", "mod", "edit", "-json", file).Output()
			if err != nil {
				t.Fatal(file, err)
			}
			var m goMod
			if err := json.Unmarshal(out, &m); err != nil {
				t.Fatal(file, err)
			}
			all[filepath.Dir(file)] = m
		}
	}
	return all
}

// goLine is the go line of every module that a program can require: it changes the language version and the GODEBUG
// defaults of the program, so it names the version that the code needs, and no later one.
const goLine = "1.25.0"

// TestModules checks that each module has the path of its directory and its go line, that the modules of this repository require one
// version of each other, and that replace directives lead to modules of this repository, since programs that import a module ignore
// its replace directives.
func TestModules(t *testing.T) {
	versions := make(map[string]bool)
	for dir, m := range modules(t) {
		expect.Equal(t, m.Module.Path, path.Join(modulePath, dir), "%s: the module", dir)
		internal := dir == "e2e" || dir == "bench" || strings.HasPrefix(dir, "tools/")
		expect.True(t, m.Go == goLine || internal, "%s: the go line is %s, want %s", dir, m.Go, goLine)
		replaced := make(map[string]bool)
		for _, r := range m.Replace {
			below, own := strings.CutPrefix(r.Old.Path, modulePath)
			expect.True(t, own && dir != "." && path.Join(dir, r.New.Path) == path.Join(".", below),
				"%s: replaces %s by %s", dir, r.Old.Path, r.New.Path)
			replaced[r.Old.Path] = true
		}
		for _, r := range m.Require {
			if !strings.HasPrefix(r.Path, modulePath) {
				continue
			}
			if versions[r.Version] = true; !replaced[r.Path] {
				t.Errorf("%s: requires %s without replacing it with the module in this repository", dir, r.Path)
			}
		}
	}
	expect.Equal(t, len(versions), 1, "the modules require the versions %v of each other", slices.Collect(maps.Keys(versions)))
}

// TestRequirements compares the direct requirements of the released libraries with the table.
func TestRequirements(t *testing.T) {
	all := modules(t)
	for dir, want := range requirements {
		var got []string
		for _, r := range all[dir].Require {
			if !r.Indirect && !strings.HasPrefix(r.Path, modulePath) && !slices.Contains(onlyTests, r.Path) {
				got = append(got, r.Path+" "+r.Version)
			}
		}
		slices.Sort(got)
		expect.Elements(t, got, slices.Sorted(maps.Keys(want)), "%s requires", dir)
		expect.True(t, !slices.Contains(slices.Collect(maps.Values(want)), ""), "%s: a bound has no reason: %v", dir, want)
	}
}
