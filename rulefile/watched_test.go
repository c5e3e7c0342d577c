package rulefile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

// A watched is a limiter that follows a file, in a synctest bubble.
type watched struct {
	t       *testing.T
	path    string
	limiter *core.Limiter
	log     bytes.Buffer
	reports []string
	seen    map[int]bool // rates that were active
}

// watch runs test with a limiter that follows a file with a rate of 10 per hour, and that also has rules of the
// program.
func watch(t *testing.T, test func(w *watched), also ...core.Rule) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, path: filepath.Join(dir, "spillgate.yaml"), seen: make(map[int]bool)}
		w.write(w.path, rate(10))
		file := must.Get(rulefile.Load(w.path, program))(t)
		w.limiter = core.Must(core.New(append(file.Rules, also...)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- rulefile.Watch(ctx, w.path, w.limiter, program, rulefile.Options{
				Log:  slog.New(slog.NewTextHandler(&w.log, nil)),
				Also: also,
				Report: func(_, hash string, err error) {
					w.reports = append(w.reports, fmt.Sprintf("%.8s %v", hash, firstLine(err)))
				},
			})
		}()
		w.wait(500 * time.Millisecond)
		test(w)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v, want nil once the context is done", err)
		}
	})
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}

func (w *watched) write(path, text string) {
	w.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// wait lets time pass and records which rates are active in the meantime.
func (w *watched) wait(d time.Duration) {
	for ; d > 0; d -= 50 * time.Millisecond {
		time.Sleep(min(d, 50*time.Millisecond))
		synctest.Wait()
		w.seen[w.rate()] = true
	}
}

func (w *watched) rate() int { return w.limiter.Rules()[0].Limits[0].Rate }

func (w *watched) wantRate(n int, why string) {
	w.t.Helper()
	if got := w.rate(); got != n {
		w.t.Errorf("%s: got a rate of %d, want %d\n%s", why, got, n, &w.log)
	}
}
