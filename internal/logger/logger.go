// Package logger finds the logger of the limiter that decides a request, for packages that core calls back.
package logger

import (
	"context"
	"log/slog"
)

// Key is the key of the context value that has the logger.
type Key struct{}

// Of returns the logger in ctx, or slog.Default().
func Of(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(Key{}).(*slog.Logger); ok {
		return log
	}
	return slog.Default()
}
