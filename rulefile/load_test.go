package rulefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

func TestDryRunVariable(t *testing.T) {
	src := "rules: [{name: a, key: ip, limits: 1/s}, {name: b, key: ip, limits: 1/s, dry_run: true}, {name: c, key: ip, limits: 1/s}]"
	path := filepath.Join(t.TempDir(), "f.yaml")
	must.Do(t, os.WriteFile(path, []byte(src), 0o600))
	for value, want := range map[string]string{
		"": "false true false", "all": "true true true", "a": "true true false", " c , a": "true true true", "none": "false true false", ",": "false true false",
	} {
		t.Setenv("SPILLGATE_DRY_RUN", value)
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		f, err := rulefile.Load(path, program)
		slog.SetDefault(before)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(f.Rules[0].DryRun, f.Rules[1].DryRun, f.Rules[2].DryRun); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
		if unknown := value == "none"; unknown != strings.Contains(log.String(), "rule=none") {
			t.Errorf("%q: got log %q", value, &log)
		}
	}
}

func TestLoadOfNoFile(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "none.yaml"), t.TempDir()} {
		f, err := rulefile.Load(path, program)
		if err == nil || f != nil || !strings.HasPrefix(err.Error(), "spillgate: ") {
			t.Errorf("got %v, %v", f, err)
		}
		if _, isDir := os.Stat(path); isDir != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want it to wrap fs.ErrNotExist", err)
		}
	}
}
