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

func TestEvictionPolicyIsWarnedAboutOnce(t *testing.T) {
	for policy, want := range map[string]int{"allkeys-lru": 1, "volatile-ttl": 1, "volatile-lru": 1, "noeviction": 0} {
		t.Run(policy, func(t *testing.T) {
			var log lockedBuffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)
			client := redistest.Start(t, "--maxmemory-policy", policy).Client(t)
			s := redisx.New(client, options)
			for range 3 {
				take(t, s, claimOf("k", core.PerMinute(5)))
			}
			redistest.Wait(t, "the store to ask for the policy", func() bool { return calls(t, client, "info") > 1 })
			if want > 0 {
				redistest.Wait(t, "the warning", func() bool { return strings.Contains(log.String(), "maxmemory-policy="+policy) })
			}
			take(t, s, claimOf("k", core.PerMinute(5)))
			if n := strings.Count(log.String(), "WARN"); n != want {
				t.Errorf("%d warnings, want %d:\n%s", n, want, log.String())
			}
		})
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
