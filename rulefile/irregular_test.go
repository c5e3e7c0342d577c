//go:build unix

package rulefile_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

// TestOnlyRegularFilesAreRead checks that loading a named pipe, a socket, a device or a directory fails at once, also behind a link.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, socket, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket"), filepath.Join(dir, "link")
	must.Do(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)))
	defer must.Get(net.Listen("unix", socket))(t).Close()
	for _, path := range []string{pipe, link, socket, "/dev/zero", dir} {
		failed := make(chan error, 1)
		go func() {
			_, err := rulefile.Load(path, program)
			failed <- err
		}()
		select {
		case err := <-failed:
			expect.True(t, errors.Is(err, core.ErrInvalid) && strings.HasSuffix(err.Error(), path+" is not a regular file"),
				"%s: got %v", path, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s: Load waits", path)
		}
	}
}

// TestWatchDoesNotWaitForAPipe checks that the rules stay the same while a named pipe replaces the file, and change afterwards.
func TestWatchDoesNotWaitForAPipe(t *testing.T) {
	watch(t, func(w *watched) {
		must.Do(t, os.Remove(w.path))
		must.Do(t, syscall.Mkfifo(w.path, 0o600))
		w.wait(5 * time.Second)
		w.wantRate(10, "with a pipe in place of the file")
		n := strings.Count(w.log.String(), "is not a regular file")
		expect.True(t, n == 1, "logged %d times, want once:\n%s", n, &w.log)
		must.Do(t, os.Remove(w.path))
		w.write(w.path, rate(20))
		w.wait(3 * time.Second)
		w.wantRate(20, "with a file again")
	})
}
