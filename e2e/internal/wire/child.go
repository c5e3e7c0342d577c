package wire

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// Child runs this test's program again, with a variable of the environment that tells it what to do. It returns the first line that
// the process writes, and the process. The input of the process ends with the test, and the process must end then.
func Child(t testing.TB, variable string) (line string, p *os.Process) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable)
	cmd.Stderr = os.Stderr
	in := must.Get(cmd.StdinPipe())(t)
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	tooLate := time.AfterFunc(Timeout, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		_ = in.Close()
		tooLate.Reset(Timeout)
		_ = cmd.Wait()
		tooLate.Stop()
	})
	if line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	tooLate.Stop()
	return strings.TrimSpace(line), cmd.Process
}
