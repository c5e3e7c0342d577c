package modules

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	own     = "github.com/spillgate/spillgate"
	version = "v0.1.0" // the version that the modules require of each other
)

// released are the modules that get a tag, by directory.
var released = []string{
	"", "middleware/gin", "middleware/echo", "middleware/echov5", "middleware/grpc", "middleware/mcp", "telemetry/otel", "telemetry/prometheus", "cmd/spillgate",
}

// proxy makes a module proxy of the released modules as they are in this checkout, without replace directives as in a release, and
// returns its GOPROXY value. All other modules come from the proxy of the environment.
var proxy = sync.OnceValues(func() (string, error) {
	root := filepath.Join(scratch, "proxy")
	for _, dir := range released {
		source := filepath.Join("..", "..", dir)
		m := module.Version{Path: strings.TrimSuffix(own+"/"+dir, "/"), Version: version}
		at := filepath.Join(root, filepath.FromSlash(m.Path), "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return "", err
		}
		goMod, err := os.ReadFile(filepath.Join(source, "go.mod"))
		if err != nil {
			return "", err
		}
		text, _, _ := strings.Cut(string(goMod), "\nreplace ") // they stand last
		for name, text := range map[string]string{
			"list": version, version + ".mod": text + "\n", version + ".info": `{"Version":"` + version + `"}`,
		} {
			if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
				return "", err
			}
		}
		w, err := os.Create(filepath.Join(at, version+".zip"))
		if err != nil {
			return "", err
		}
		if err := zip.CreateFromDir(w, m, source); err != nil {
			return "", err
		}
		if err := w.Close(); err != nil {
			return "", err
		}
	}
	rest, err := goEnv("GOPROXY")
	return "file://" + filepath.ToSlash(root) + "," + rest, err
})

func goEnv(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out)), err
}

// cache makes a module cache that shares all modules but ours with the cache of the user, and returns its directory.
var cache = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "cache")
	shared, err := goEnv("GOMODCACHE")
	if err != nil {
		return "", err
	}
	for _, sub := range []string{"", filepath.Join("cache", "download")} {
		for _, within := range []string{"", "github.com"} {
			if err := os.MkdirAll(filepath.Join(dir, sub, within), 0o755); err != nil {
				return "", err
			}
			entries, err := os.ReadDir(filepath.Join(shared, sub, within))
			if err != nil && !os.IsNotExist(err) {
				return "", err
			}
			for _, e := range entries {
				if slices.Contains([]string{"cache", "github.com", "spillgate"}, e.Name()) {
					continue
				}
				at := filepath.Join(sub, within, e.Name())
				if err := os.Symlink(filepath.Join(shared, at), filepath.Join(dir, at)); err != nil {
					return "", err
				}
			}
		}
	}
	return dir, nil
})

// scratch is removed after the tests.
var scratch string

func TestMain(m *testing.M) {
	code := func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "modules"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		return m.Run()
	}()
	os.Exit(code)
}

// A program is a module of a user.
type program struct {
	t   *testing.T
	dir string
	env []string
}

// newProgram returns a program that requires modules in versions: path@version.
func newProgram(t *testing.T, requires ...string) *program {
	t.Helper()
	p := &program{t: t, dir: t.TempDir()}
	p.env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw "+os.Getenv("GOFLAGS"), "GOPROXY="+must.Get(proxy())(t), "GOSUMDB=off",
		"GOMODCACHE="+must.Get(cache())(t))
	goMod := "module example.com/program\n\ngo 1.25.0\n"
	for _, r := range requires {
		goMod += "\nrequire " + strings.Replace(r, "@", " ", 1)
	}
	must.Do(t, os.WriteFile(filepath.Join(p.dir, "go.mod"), []byte(goMod+"\n"), 0o644))
	return p
}

// run runs a command in the directory of p and returns what it prints.
func (p *program) run(words ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// build builds the program. With -trimpath, runs share the build cache although their module caches have different paths.
func (p *program) build() {
	p.t.Helper()
	p.run("go", "build", "-trimpath", ".")
}

// write writes the program: source or, if that is empty, a package that only imports others.
func (p *program) write(source string, imports ...string) {
	p.t.Helper()
	if source == "" {
		source = "package program\n\nimport (\n"
		for _, path := range imports {
			source += "\t_ \"" + path + "\"\n"
		}
		source += ")\n"
	}
	if err := os.WriteFile(filepath.Join(p.dir, "main.go"), []byte(source), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// required returns the versions that the go.mod of p requires, and which of them directly.
func (p *program) required() (all map[string]string, direct []string) {
	p.t.Helper()
	m := must.Get(modfile.Parse("go.mod", must.Get(os.ReadFile(filepath.Join(p.dir, "go.mod")))(p.t), nil))(p.t)
	all = make(map[string]string)
	for _, r := range m.Require {
		if all[r.Mod.Path] = r.Mod.Version; !r.Indirect {
			direct = append(direct, r.Mod.Path)
		}
	}
	slices.Sort(direct)
	return all, direct
}

// A move is a program before and after it uses Spillgate. Blanks separate the modules and the imports.
type move struct {
	name     string
	requires string // path@version
	before   string // imports
	after    string // imports below Spillgate's path instead of what is no longer used
	gone     string // import that is no longer used
}

var core = []string{own + "/core", own + "/keyfunc"}

var moves = []move{
	{"gin 1.9.1 from x/time/rate", "github.com/gin-gonic/gin@v1.9.1 golang.org/x/time@v0.3.0",
		"github.com/gin-gonic/gin golang.org/x/time/rate", "middleware/gin", "golang.org/x/time/rate"},
	{"echo 4.10.2", "github.com/labstack/echo/v4@v4.10.2",
		"github.com/labstack/echo/v4 github.com/labstack/echo/v4/middleware", "middleware/echo", ""},
	{"echo 5.0.0", "github.com/labstack/echo/v5@v5.0.0", "github.com/labstack/echo/v5", "middleware/echov5", ""},
	{"go-sdk 1.7.0", "github.com/modelcontextprotocol/go-sdk@v1.7.0", "github.com/modelcontextprotocol/go-sdk/mcp", "middleware/mcp", ""},
	{"chi 5.0.8", "github.com/go-chi/chi/v5@v5.0.8", "github.com/go-chi/chi/v5", "middleware/chi", ""},
	{"grpc 1.57.0", "google.golang.org/grpc@v1.57.0", "google.golang.org/grpc google.golang.org/grpc/health", "middleware/grpc", ""},
	{"grpc 1.68.0", "google.golang.org/grpc@v1.68.0",
		"google.golang.org/grpc google.golang.org/grpc/health google.golang.org/genproto/googleapis/rpc/errdetails", "middleware/grpc", ""},
	{"grpc 1.68.0 alone", "google.golang.org/grpc@v1.68.0", "google.golang.org/grpc", "middleware/grpc", ""},
	{"go-redis 9.6.1", "github.com/redis/go-redis/v9@v9.6.1", "github.com/redis/go-redis/v9", "middleware/stdlib core/redisstore", ""},
	{"go-redis 9.7.0 and the libraries that our tests use",
		"github.com/redis/go-redis/v9@v9.7.0 github.com/alicebob/miniredis/v2@v2.30.5 go.uber.org/goleak@v1.1.12 pgregory.net/rapid@v1.1.0",
		"github.com/redis/go-redis/v9 github.com/alicebob/miniredis/v2 go.uber.org/goleak pgregory.net/rapid", "middleware/stdlib core/redisstore", ""},
	{"OpenTelemetry 1.20 beside gin",
		"github.com/gin-gonic/gin@v1.9.1 go.opentelemetry.io/otel@v1.20.0 go.opentelemetry.io/otel/sdk@v1.20.0 go.opentelemetry.io/otel/sdk/metric@v1.20.0",
		"github.com/gin-gonic/gin go.opentelemetry.io/otel go.opentelemetry.io/otel/sdk/metric go.opentelemetry.io/otel/sdk/trace",
		"middleware/gin telemetry/otel", ""},
	{"otel/log 0.4 beside gin", "github.com/gin-gonic/gin@v1.9.1 go.opentelemetry.io/otel/log@v0.4.0",
		"github.com/gin-gonic/gin go.opentelemetry.io/otel/log", "middleware/gin", ""},
	{"client_golang 1.20.5", "github.com/prometheus/client_golang@v1.20.5",
		"github.com/prometheus/client_golang/prometheus/promhttp", "middleware/stdlib telemetry/prometheus", ""},
	{"go-yaml 1.17.1", "github.com/goccy/go-yaml@v1.17.1", "github.com/goccy/go-yaml", "middleware/stdlib rulefile", ""},
}

// TestImportsRaiseNothing moves programs to Spillgate: no version of another module changes, and nothing but Spillgate is
// required directly. A new program needs only go mod tidy.
func TestImportsRaiseNothing(t *testing.T) {
	for _, m := range moves {
		t.Run(m.name, func(t *testing.T) {
			p := newProgram(t, strings.Fields(m.requires)...)
			p.write("", strings.Fields(m.before)...)
			p.run("go", "mod", "tidy")
			before, _ := p.required()

			after, get := append(strings.Fields(m.before), core...), []string{"go", "get"}
			for _, name := range strings.Fields(m.after) {
				after = append(after, own+"/"+name)
			}
			after = slices.DeleteFunc(after, func(path string) bool { return path == m.gone })
			p.write("", after...)
			for _, path := range after {
				if strings.HasPrefix(path, own+"/") {
					get = append(get, path+"@"+version)
				}
			}
			p.run(get...)
			p.run("go", "mod", "tidy")
			p.build()
			now, direct := p.required()
			for path, v := range now {
				was, ok := before[path]
				expect.True(t, !ok || was == v, "%s was %s and is %s", path, was, v)
			}
			added := maps.Clone(now)
			maps.DeleteFunc(added, func(path, _ string) bool {
				_, had := before[path]
				return had || strings.HasPrefix(path, own)
			})
			t.Logf("also required, indirectly: %v", added)

			for i, path := range direct {
				direct[i] += "@" + now[path]
			}
			fresh := newProgram(t, direct...)
			fresh.write("", after...)
			fresh.run("go", "mod", "tidy") // fails if two modules that are required indirectly have the same package
		})
	}
}

// TestNetHTTPRequiresLittle imports core and the adapter of net/http.
func TestNetHTTPRequiresLittle(t *testing.T) {
	p := newProgram(t)
	p.write("", append([]string{own + "/middleware/stdlib"}, core...)...)
	p.run("go", "get", own+"@"+version)
	p.run("go", "mod", "tidy")
	p.build()
	all, direct := p.required()
	if paths := slices.Sorted(maps.Keys(all)); !slices.Equal(paths, []string{own}) || !slices.Equal(direct, []string{own}) {
		t.Errorf("requires %v, %v of them directly", paths, direct)
	}
	sums := must.Get(os.ReadFile(filepath.Join(p.dir, "go.sum")))(t)
	expect.AtMost(t, strings.Count(string(sums), "\n"), 20, "go.sum has lines:\n%s", sums)
}

// TestChiDownloadsLittle checks which modules a program with chi downloads into an empty module cache.
func TestChiDownloadsLittle(t *testing.T) {
	p := newProgram(t, own+"@"+version)
	cache := t.TempDir()
	p.env = append(p.env, "GOMODCACHE="+cache)
	p.write("", append([]string{own + "/middleware/chi", "github.com/go-chi/chi/v5"}, core...)...)
	p.build()
	var got []string
	for _, pattern := range []string{"*/*/*@*", "*/*/*/*@*"} {
		for _, dir := range must.Get(filepath.Glob(filepath.Join(cache, pattern)))(t) {
			path, _ := filepath.Rel(cache, dir)
			path, _, _ = strings.Cut(filepath.ToSlash(path), "@")
			if !strings.HasPrefix(path, "cache/") {
				got = append(got, path)
			}
		}
	}
	slices.Sort(got)
	expect.Elements(t, got, []string{"github.com/go-chi/chi/v5", own}, "downloaded")
}

// TestBinaryIsSmall compares a stripped program with chi and this module to one with httprate. The difference is the
// code of this module, and log/slog with encoding/json, which WithLogger needs.
func TestBinaryIsSmall(t *testing.T) {
	size := func(use string, imports ...string) int64 {
		p := newProgram(t, own+"@"+version, "github.com/go-chi/chi/v5@v5.2.1", "github.com/go-chi/httprate@v0.15.0")
		source := "package main\n\nimport (\n\t\"net/http\"\n\t\"time\"\n\n\t\"github.com/go-chi/chi/v5\"\n"
		for _, path := range imports {
			source += "\t" + path + "\n"
		}
		source += ")\n\nvar _ time.Duration\n\nfunc main() {\n\tr := chi.NewRouter()\n\t" + use + `
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	_ = http.ListenAndServe("127.0.0.1:8080", r)
}
`
		p.write(source)
		p.run("go", "mod", "tidy")
		p.run("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "program", ".")
		return must.Get(os.Stat(filepath.Join(p.dir, "program")))(t).Size()
	}
	theirs := size("r.Use(httprate.LimitByIP(100, time.Minute))", `"github.com/go-chi/httprate"`)
	ours := size("r.Use(chilimit.New(core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))))",
		`"`+own+`/core"`, `"`+own+`/keyfunc"`, `"`+own+`/middleware/chi"`)
	if ratio := float64(ours) / float64(theirs); ratio > 1.16 {
		t.Errorf("%d bytes, %.3f times as many as with httprate, want at most 1.16 times", ours, ratio)
	} else {
		t.Logf("%d bytes, %.3f times as many as with httprate", ours, ratio)
	}
}

// TestCommandInstalls installs the command without a checkout, as README shows.
func TestCommandInstalls(t *testing.T) {
	p := newProgram(t)
	p.env = append(p.env, "GOBIN="+p.dir)
	p.run("go", "install", "-trimpath", own+"/cmd/spillgate@"+version)
	expect.Contains(t, p.run(filepath.Join(p.dir, "spillgate"), "--help"), "demo", "help")
}
