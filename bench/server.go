package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is a redis-server of our own, on the loopback interface, that keeps nothing on disk.
type server struct {
	addr    string
	process *exec.Cmd
	dir     string
}

// redis returns the server, and starts it if no row has done so yet.
func (e *env) redis() (*server, error) {
	if e.server == nil {
		s, err := startServer(e.ctx)
		if err != nil {
			return nil, err
		}
		e.server = s
	}
	return e.server, nil
}

// startServer starts a server, under the command line in under if there is one, that ends with ctx at the latest. Another
// process may take the port before the server has it, so there are several attempts.
func startServer(ctx context.Context, under ...string) (s *server, err error) {
	for range 3 {
		if s, err = tryServer(ctx, under); err == nil {
			break
		}
	}
	return s, err
}

// tryServer starts a server at a port that was free just now.
func tryServer(ctx context.Context, under []string) (*server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("the rows about Redis need redis-server: %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "spillgate-bench-")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	line := append(slices.Clone(under), path, "--bind", "127.0.0.1", "--port", port,
		"--save", "", "--appendonly", "no", "--dir", dir, "--maxclients", "4000")
	s := &server{addr: addr, dir: dir, process: exec.CommandContext(ctx, line[0], line[1:]...)}
	if err := s.process.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.await(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// freeAddr returns a loopback address that is not in use.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// await returns once the server answers. It is an error if the server of another process does.
func (s *server) await() error {
	c := s.client()
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		text, err := c.Info(ctx, "server").Result()
		switch {
		case err == nil && strings.Contains(text, fmt.Sprintf("process_id:%d\r\n", s.process.Process.Pid)):
			return nil
		case err == nil:
			err = errors.New("the port was taken")
		case ctx.Err() == nil:
			time.Sleep(10 * time.Millisecond)
			continue
		}
		return fmt.Errorf("redis-server at %s: %w", s.addr, err)
	}
}

// client returns a new client with the options that the documentation recommends, but one that waits for the server on a
// busy machine.
func (s *server) client() *redis.Client {
	const timeout = 30 * time.Second
	return redis.NewClient(&redis.Options{
		Addr: s.addr, ContextTimeoutEnabled: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
	})
}

// stop ends the process and waits for it.
func (s *server) stop() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	_ = os.RemoveAll(s.dir)
}

// redisVersion returns the version of the server, or nothing if no row needed one.
func (e *env) redisVersion() string {
	if e.server == nil {
		return ""
	}
	c := e.server.client()
	defer func() { _ = c.Close() }()
	for line := range strings.Lines(c.Info(context.Background(), "server").Val()) {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return ", redis-server " + strings.TrimSpace(version)
		}
	}
	return ""
}
