//go:build !unix

package main

import (
	"context"
	"os/exec"
	"time"
)

// alone returns a plain command where there are no groups of processes, nor limits.
func alone(ctx context.Context, _ time.Duration, name string, args ...string) (cmd *exec.Cmd, end func()) {
	return exec.CommandContext(ctx, name, args...), func() {}
}
