package storetest_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
)

// which names the broken store that TestBrokenStore runs the suite on.
const which = "SPILLGATE_BROKEN_STORE"

func TestBrokenStore(t *testing.T) {
	b, ok := brokenStores[os.Getenv(which)]
	if !ok {
		return // it is for the processes of TestSuiteFindsBrokenStores
	}
	storetest.Run(t, storetest.Harness{New: func(*testing.T) core.Store { return &broken{breakage: b} }})
}

func TestSuiteFindsBrokenStores(t *testing.T) {
	for name, b := range brokenStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := strings.ReplaceAll(b.finds, " ", "_")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenStore$/^"+regexp.QuoteMeta(row)+"$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), which+"="+name)
			out, err := cmd.CombinedOutput()
			if want := "--- FAIL: TestBrokenStore/" + row; err == nil || !strings.Contains(string(out), want+" (") {
				t.Errorf("the suite ended with %v, without %q:\n%s", err, want, out)
			}
		})
	}
}

// A breakage breaks a sound store. A nil func leaves that method sound.
type breakage struct {
	finds  string // the row that must fail
	take   func(m *core.MemoryStore, claims []core.Claim, dst []core.Result) ([]core.Result, error)
	settle func(m *core.MemoryStore, settlements []core.Settlement) error
	reset  func(m *core.MemoryStore, pairs []core.Pair) error
}

type broken struct {
	breakage
	sound core.MemoryStore
}

func (b *broken) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if b.take == nil {
		return b.sound.Take(ctx, claims, dst)
	}
	return b.take(&b.sound, claims, dst)
}

func (b *broken) Settle(ctx context.Context, settlements []core.Settlement) error {
	if b.settle == nil {
		return b.sound.Settle(ctx, settlements)
	}
	return b.settle(&b.sound, settlements)
}

func (b *broken) Reset(ctx context.Context, pairs []core.Pair) error {
	if b.reset == nil {
		return b.sound.Reset(ctx, pairs)
	}
	return b.reset(&b.sound, pairs)
}
