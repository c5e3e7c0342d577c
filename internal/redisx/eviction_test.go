package redisx_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

func TestAnAllkeysPolicyIsWarnedAboutOnce(t *testing.T) {
	var log lockedBuffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	s := redisx.New(redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client(t), options)
	for range 3 {
		take(t, s, claimOf("k", core.PerMinute(5)))
	}
	redistest.Wait(t, "the warning", func() bool { return strings.Contains(log.String(), "maxmemory-policy=allkeys-lru") })
	take(t, s, claimOf("k", core.PerMinute(5)))
	if n := strings.Count(log.String(), "WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
}

// A lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
