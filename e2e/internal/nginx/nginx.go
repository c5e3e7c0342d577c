// Package nginx starts proxies for tests: on free ports of the loopback addresses, in temporary directories.
// The test's process stops each proxy when the test ends.
package nginx

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/redistest"
)

// startTimeout bounds how long a proxy may take to start.
const startTimeout = 10 * time.Second

// A Proxy is what one nginx does.
type Proxy struct {
	Listen   string // a loopback address without a port, such as "127.0.0.1" or "[::1]", or "unix:" and a path
	Upstream string // where it passes requests on: host and port, or "unix:" and a path
	Bind     string // the address that the upstream sees as its peer; empty for the default
	Mute     bool   // it says nothing of the client, and passes on what the client said
	GRPC     bool   // it passes on calls of gRPC, over unencrypted HTTP/2
}

// config makes a proxy of one server, with all its files in PREFIX.
const config = `
daemon off;
master_process off;
pid PREFIX/nginx.pid;
error_log PREFIX/error.log;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path PREFIX/body;
	proxy_temp_path PREFIX/proxy;
	fastcgi_temp_path PREFIX/fastcgi;
	uwsgi_temp_path PREFIX/uwsgi;
	scgi_temp_path PREFIX/scgi;
	map $remote_addr $node {
		~^[0-9.]+$        "for=$remote_addr";
		~^[0-9A-Fa-f:.]+$ "for=\"[$remote_addr]\"";
		default           "for=unknown";
	}
	map $http_forwarded $forwarded {
		""      $node;
		default "$http_forwarded, $node";
	}
	server {
		listen LISTEN;
		location / {
			proxy_pass http://UPSTREAM;
			proxy_http_version 1.1;
			proxy_set_header Host $http_host;
			HEADERS
			BIND
		}
	}
}
`

// setHeaders sends the address of the client upstream in three headers at once, as the nginx documentation shows. A client on a
// Unix socket is "unix:" to nginx.
const setHeaders = `
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
			proxy_set_header Forwarded $forwarded;
			proxy_set_header X-Real-IP $remote_addr;
`

// Start starts p and returns what it listens on: host and port, or "unix:" and a path. If there is no nginx it skips the
// test, or fails it where CI is set.
func Start(t testing.TB, p Proxy) string {
	t.Helper()
	path := binary(t)
	for range 5 {
		if addr, ok := start(t, path, p); ok {
			return addr
		}
	}
	t.Fatal("nginx did not start on five free ports")
	return ""
}

func binary(t testing.TB) string {
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no nginx, and CI is set")
	}
	t.Skip("SKIPPED: there is no nginx; install it to run this test")
	return ""
}

// start reports false if nginx ended, as it does when another process has taken the port in the meantime.
func start(t testing.TB, path string, p Proxy) (addr string, ok bool) {
	prefix := t.TempDir()
	addr = free(t, p.Listen)
	file := filepath.Join(prefix, "nginx.conf")
	if err := os.WriteFile(file, []byte(p.config(prefix, addr)), 0o600); err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	cmd := exec.Command(path, "-p", prefix, "-c", file)
	cmd.Stderr = &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	if !answers(addr, ended) {
		log, _ := os.ReadFile(filepath.Join(prefix, "error.log"))
		t.Logf("nginx on %s: %s%s", addr, problems.String(), log)
		return "", false
	}
	return addr, true
}

// config returns the text of the configuration.
func (p *Proxy) config(prefix, addr string) string {
	bind, fields := "", setHeaders
	if p.Bind != "" {
		bind = "proxy_bind " + p.Bind + ";"
	}
	if p.Mute {
		fields = ""
	}
	config := config
	if p.GRPC {
		config = strings.NewReplacer("listen LISTEN", "listen LISTEN http2", "proxy_pass http:", "grpc_pass grpc:", "proxy_http_version 1.1;", "",
			"proxy_set_header", "grpc_set_header").Replace(config)
		fields = strings.ReplaceAll(fields, "proxy_set_header", "grpc_set_header")
	}
	return strings.NewReplacer(
		"PREFIX", prefix, "LISTEN", addr, "UPSTREAM", p.Upstream, "BIND", bind, "HEADERS", fields,
	).Replace(config)
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

// Dial connects to an address that Start returned.
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
	if err != nil {
		t.Fatal(err)
	}
	return host + ":" + port
}
