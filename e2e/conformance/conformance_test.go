package conformance

import (
	"context"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestSuite checks that the limiter changes no result, and that it knows how calls ended.
func TestSuite(t *testing.T) {
	programs := build(t)
	for _, s := range []server{
		{filepath.Join(programs, "referenceserver"), "config.yaml", 1000, 300, []string{"stdlib", "chi", "gin", "echo", "echov5"}},
		{filepath.Join(programs, "grpcserver"), "grpc.yaml", 300, 100, []string{"grpc"}},
	} {
		total, failed := s.results(t, "")
		expect.AtLeast(t, total, s.cases, "the suite has cases for %s", s.program)
		for _, adapter := range s.adapters {
			t.Run(adapter, func(t *testing.T) {
				t.Parallel()
				outcomes := filepath.Join(t.TempDir(), "outcomes")
				n, different := s.results(t, adapter+":"+outcomes)
				expect.True(t, n == total && maps.Equal(different, failed),
					"%d of %d cases failed: %v\nwant %d of %d, as without the limiter: %v", len(different), n, different, len(failed), total, failed)
				checkOutcomes(t, outcomes, s.named)
			})
		}
	}
}

// A server is a program of the suite.
type server struct {
	program  string
	config   string // the file that says which cases apply
	cases    int    // at least
	named    int    // at least so many are named after the code with which their call ends
	adapters []string
}

// build builds the suite and its servers in a temporary directory.
func build(t *testing.T) (dir string) {
	dir = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", dir+"/", "tool")
	cmd.Dir, cmd.Env = filepath.Join("testdata", "suite"), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v, and CI is set\n%s", err, out)
	} else if err != nil {
		t.Skipf("SKIPPED: the suite cannot be built: %v\n%s", err, out)
	}
	return dir
}

var (
	summary = regexp.MustCompile(`Total cases: (\d+)\n`)
	failure = regexp.MustCompile(`(?m)^FAILED: (.*):$`)
)

// results runs all cases and returns how many there are and which failed. Some depend on the time, so it runs those that fail again.
// The server reads the environment variable limited.
func (s server) results(t *testing.T, limited string) (total int, failed map[string]bool) {
	t.Helper()
	var again []string
	for range 3 {
		out := s.run(t, limited, again)
		found := summary.FindStringSubmatch(out)
		if found == nil || strings.Contains(out, "could not be run") {
			t.Logf("the suite did not finish:\n%s", out)
			continue
		}
		if again == nil {
			total, _ = strconv.Atoi(found[1])
		}
		failed = map[string]bool{}
		for _, f := range failure.FindAllStringSubmatch(out, -1) {
			failed[f[1]] = true
		}
		if len(failed) == 0 {
			return total, failed
		}
		t.Log(out)
		again = slices.Sorted(maps.Keys(failed))
	}
	must.True(t, failed != nil, "the suite did not finish")
	return total, failed
}

func (s server) run(t *testing.T, limited string, cases []string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := []string{"--mode", "server", "--conf", must.Get(filepath.Abs(filepath.Join("testdata", "suite", s.config)))(t)}
	for _, name := range cases {
		args = append(args, "--run", name)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.program), "connectconformance"), append(args, "--", s.program)...)
	cmd.Env = append(os.Environ(), "SPILLGATE_E2E_CONFORMANCE="+limited)
	// It starts servers, which are in its process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, _ := cmd.CombinedOutput() // it fails if a case fails
	return string(out)
}

// statuses are the statuses of cases that are named after the code with which their call ends.
var statuses = map[string]int{
	"success":             http.StatusOK,
	"canceled":            499,
	"unknown":             http.StatusInternalServerError,
	"invalid-argument":    http.StatusBadRequest,
	"deadline-exceeded":   http.StatusGatewayTimeout,
	"not-found":           http.StatusNotFound,
	"already-exists":      http.StatusConflict,
	"permission-denied":   http.StatusForbidden,
	"resource-exhausted":  http.StatusTooManyRequests,
	"failed-precondition": http.StatusBadRequest,
	"aborted":             http.StatusConflict,
	"out-of-range":        http.StatusBadRequest,
	"unimplemented":       http.StatusNotImplemented,
	"internal":            http.StatusInternalServerError,
	"unavailable":         http.StatusServiceUnavailable,
	"data-loss":           http.StatusInternalServerError,
	"unauthenticated":     http.StatusUnauthorized,
}

// checkOutcomes checks the statuses that the rule was given, of at least so many cases.
func checkOutcomes(t *testing.T, file string, least int) {
	text := must.Get(os.ReadFile(file))(t)
	right, wrong := map[string]bool{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, status, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		want, ok := statuses[name[strings.LastIndex(name, "/")+1:]]
		if suite, _, _ := strings.Cut(name, "/"); suite != "Basic" && suite != "Errors" || !ok || strings.Contains(name, "ZSTD") {
			continue
		}
		if status == strconv.Itoa(want) {
			right[name] = true
		} else {
			wrong[name] = status
		}
	}
	for name, status := range wrong {
		if !right[name] { // a case that failed in a run may succeed in the next
			t.Errorf("%s: status %s", name, status)
		}
	}
	expect.AtLeast(t, len(right), least, "calls whose statuses the rule was given")
}
