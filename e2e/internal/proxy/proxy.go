// Package proxy starts proxies for tests: on free ports of the loopback addresses, in temporary directories.
// The test's process stops each proxy when the test ends.
package proxy

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// startTimeout bounds how long a proxy may take to start.
const startTimeout = 10 * time.Second

// A Proxy is the task of one process.
type Proxy interface {
	// listen returns a loopback address without a port, or "unix:" and a path.
	listen() string

	// command returns the program, its arguments, and the text of its configuration, which Start writes to file. All of the program's
	// files are in the directory prefix. It listens on addr.
	command(prefix, file, addr string) (name string, args []string, config string)
}

// Start starts p and returns what it listens on: host and port, or "unix:" and a path. If the program is not installed it skips the
// test, or fails it where CI is set.
func Start(t testing.TB, p Proxy) string {
	t.Helper()
	for range 5 {
		if addr, ok := start(t, p); ok {
			return addr
		}
	}
	t.Fatalf("%T did not start on five free ports", p)
	return ""
}

func binary(t testing.TB, name string) string {
	for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path
		}
	}
	must.True(t, os.Getenv("CI") != "true", "there is no %s, and CI is set", name)
	t.Skipf("SKIPPED: there is no %s; install it to run this test", name)
	return ""
}

// start reports false if the program ended, as it does when another process has taken the port in the meantime.
func start(t testing.TB, p Proxy) (addr string, ok bool) {
	t.Helper()
	prefix := t.TempDir()
	addr = free(t, p.listen())
	file := filepath.Join(prefix, "config")
	name, args, config := p.command(prefix, file, addr)
	must.Do(t, os.WriteFile(file, []byte(config), 0o600))
	var problems strings.Builder
	cmd := exec.Command(binary(t, name), args...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+prefix, "XDG_DATA_HOME="+prefix)
	cmd.Stdout, cmd.Stderr = &problems, &problems
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop := func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	if !answers(addr, ended) {
		stop()
		log, _ := os.ReadFile(filepath.Join(prefix, "error.log"))
		t.Logf("%s on %s: %s%s", name, addr, problems.String(), log)
		return "", false
	}
	t.Cleanup(stop)
	return addr, true
}

// answers waits until something listens on addr. It reports false if the process ended first, or takes too long.
func answers(addr string, ended <-chan struct{}) bool {
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		conn, err := Dial(addr)
		if err == nil {
			_ = conn.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	return false
}

func Dial(addr string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return net.Dial("unix", path)
	}
	return net.Dial("tcp", addr)
}

// free returns host with a port that no other server of a test is given.
func free(t testing.TB, host string) string {
	if strings.HasPrefix(host, "unix:") {
		return host
	}
	_, port, err := net.SplitHostPort(redistest.FreeAddr(t))
	must.Do(t, err)
	return host + ":" + port
}
