//go:build unix

package main

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// limited returns a command with a limit on its processor time, which does not depend on the load of the machine. The
// command begins a process group. Function end kills the processes of the group that are left: a test that hangs does not
// stop its servers.
func limited(ctx context.Context, use time.Duration, name string, args ...string) (cmd *exec.Cmd, end func()) {
	seconds := fmt.Sprint(int(use/time.Second) + 1)
	cmd = exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -t "$0" && exec "$@"`, seconds, name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}
