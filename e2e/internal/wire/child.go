package wire

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// A Process is this test's program, running again.
type Process struct {
	*exec.Cmd
	In  io.WriteCloser
	Out *bufio.Scanner // of the lines that it writes
}

// Start runs this test's program again, with a variable of the environment that tells it what to do.
func Start(t testing.TB, variable string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), variable), os.Stderr
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	return &Process{cmd, in, bufio.NewScanner(out)}
}

// Child starts a process like Start, and returns the first line that it writes. The input of the process ends with the test, and the
// process must end then.
func Child(t testing.TB, variable string) (line string, p *os.Process) {
	t.Helper()
	child := Start(t, variable)
	tooLate := time.AfterFunc(Timeout, func() { _ = child.Process.Kill() })
	t.Cleanup(func() {
		_ = child.In.Close()
		tooLate.Reset(Timeout)
		_ = child.Wait()
		tooLate.Stop()
	})
	must.True(t, child.Out.Scan(), "the process wrote nothing: %v", child.Out.Err())
	tooLate.Stop()
	return child.Out.Text(), child.Process
}
