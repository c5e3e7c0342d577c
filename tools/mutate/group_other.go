//go:build !unix

package main

import (
	"context"
	"os/exec"
	"time"
)

// limited returns a plain command: this system has neither process groups nor limits.
func limited(ctx context.Context, _ time.Duration, name string, args ...string) (cmd *exec.Cmd, end func()) {
	return exec.CommandContext(ctx, name, args...), func() {}
}
