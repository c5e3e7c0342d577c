// Package redistest starts Redis servers for tests: on free ports of the loopback address, in temporary directories.
//
//	client := redistest.Start(t).Client(t)
//
// Each server is stopped when its test ends.
package redistest

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/internal/must"
)

// waitTimeout bounds each wait of a test for a server.
const waitTimeout = 2 * time.Minute

type Server struct {
	Addr    string
	dir     string
	args    []string
	process *exec.Cmd
}

// Start starts a server with further arguments, such as "--maxclients", "3". It skips the test under -short. If there is no
// redis-server it skips the test too, or fails it where CI is set.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{Addr: FreeAddr(t), dir: t.TempDir(), args: args}
	s.Restart(t)
	t.Cleanup(s.Kill)
	return s
}

// KeepKeys are arguments of a server on which no key expires, for tests that control the clock of a store. A server expires keys by
// real time, which passes while the clock of a bubble stands still. On this server, PEXPIRE runs TOUCH, which changes nothing.
var KeepKeys = []string{"--rename-command", "PEXPIRE", "", "--rename-command", "TOUCH", "PEXPIRE"}

func binary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short starts no server")
	}
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no redis-server in PATH, and CI is set")
	}
	t.Skip("SKIPPED: there is no redis-server in PATH; install it to run this test")
	return ""
}

// Restart starts s, which must not be running, at the same address and with the data that it had saved.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	must.Do(t, err)
	args := append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no", "--logfile", "redis.log",
		"--enable-debug-command", "yes",
	}, s.args...)
	s.process = exec.Command(binary(t), args...)
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	c := s.Client(t)
	Wait(t, "the server to answer", func() bool { return c.Ping(context.Background()).Err() == nil })
}

// Client returns a client of s that is closed when the test ends. It may be used in a synctest bubble, and its timeouts
// are longer than any pause of a server.
func (s *Server) Client(t testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: time.Minute, PoolSize: BubblePool})
	CloseInBubble(t, c)
	return c
}

// NewClient returns a client that is closed when the test ends.
func NewClient(t testing.TB, options *redis.Options) *redis.Client {
	c := redis.NewClient(options)
	t.Cleanup(func() { c.Close() })
	return c
}

// A Hook changes nothing. Hooks that change something embed it.
type Hook struct{}

func (Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// BubblePool is the size of a client's pool in a synctest bubble. It is so large that no caller waits for a connection. To wait, go-redis
// uses timers that all clients of the process share, and the runtime ends a process that resets a bubble's timer outside of the bubble.
const BubblePool = 1000

// CloseInBubble closes the client of a synctest bubble when the test ends, after its last call. If it were closed
// during a call, go-redis would pause before a retry, and a bubble cannot end during a pause.
func CloseInBubble(t testing.TB, c io.Closer) {
	t.Cleanup(func() {
		time.Sleep(time.Millisecond) // in a bubble, pending calls end first
		c.Close()
	})
}

// Kill ends s at once, as kill -9 does. It may be called twice.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// PID returns the process of s, for signals.
func (s *Server) PID() int { return s.process.Process.Pid }

func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
	return string(text)
}

func (s *Server) Port() int {
	_, port, _ := net.SplitHostPort(s.Addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Wait waits until done reports true. It fails the test after two minutes.
func Wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("waited %v for %s", waitTimeout, what)
}

// DropLog drops the log of go-redis, which reports the faults that tests inject.
func DropLog() { redis.SetLogger(noLog{}) }

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}
