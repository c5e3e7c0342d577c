package redistest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/spillgate/spillgate/internal/redistest"
)

// A run that fails while the process or a server is stopped is repeated.
func TestUndisturbedRepeatsAfterAStall(t *testing.T) {
	server := redistest.Start(t)
	for name, pid := range map[string]int{"the process": os.Getpid(), "a server": server.PID()} {
		runs := 0
		redistest.Undisturbed(t, func() error {
			if runs++; runs > 1 {
				return nil
			}
			stop := exec.Command("sh", "-c", fmt.Sprintf("kill -STOP %[1]d; sleep 0.5; kill -CONT %[1]d", pid))
			stop.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := stop.Run(); err != nil {
				t.Fatal(err)
			}
			return errors.New("disturbed")
		})
		if runs != 2 {
			t.Errorf("%s: %d runs, want 2", name, runs)
		}
	}
}
