package expect

import (
	"bytes"
	"log/slog"
	"sync"
)

// A Buffer keeps what several goroutines write.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Logger returns a logger that writes text to b.
func (b *Buffer) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// KeepLog returns what the default logger writes until t ends.
func KeepLog(t interface{ Cleanup(func()) }) *Buffer {
	before, b := slog.Default(), new(Buffer)
	slog.SetDefault(b.Logger())
	t.Cleanup(func() { slog.SetDefault(before) })
	return b
}
