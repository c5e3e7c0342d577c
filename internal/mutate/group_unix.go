//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// alone has cmd begin a group of processes, and returns what ends those that it leaves behind: a test that hangs does not
// stop the servers that it has started.
func alone(cmd *exec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}
