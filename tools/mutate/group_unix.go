//go:build unix

package main

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// alone returns a command that may use a processor for so long, which does not depend on how busy the machine is. It
// begins a group of processes; end ends those that it leaves behind: a test that hangs does not stop its servers.
func alone(ctx context.Context, use time.Duration, name string, args ...string) (cmd *exec.Cmd, end func()) {
	seconds := fmt.Sprint(int(use/time.Second) + 1)
	cmd = exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -t "$0" && exec "$@"`, seconds, name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}
