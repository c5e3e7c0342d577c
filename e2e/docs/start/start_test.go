// Package start has the programs of README.md.
package start

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each program admits 100 requests of a client and refuses the next.
func TestPrograms(t *testing.T) {
	for _, router := range []string{"nethttp", "chi", "gin", "echo", "echov5"} {
		t.Run(router, func(t *testing.T) {
			url := "http://" + start(t, router) + "/"
			for n := range 110 {
				resp, err := http.Get(url)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				switch {
				case resp.StatusCode == http.StatusTooManyRequests && n >= 100: // a request refills in 0.6s
					if got := resp.Header.Get("Retry-After"); got != "1" {
						t.Errorf("Retry-After %q, want 1", got)
					}
					return
				case resp.StatusCode != http.StatusOK:
					t.Fatalf("request %d: got %d", n+1, resp.StatusCode)
				}
			}
			t.Log("no request was refused: the machine is too busy")
		})
	}
}

// start builds a program with a free port in place of 8080, runs it and waits until it listens. It returns its address.
func start(t *testing.T, router string) string {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs(filepath.Join(router, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	write(t, filepath.Join(dir, "main.go"), strings.Replace(string(text), "127.0.0.1:8080", addr, 1))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: filepath.Join(dir, "main.go")}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), string(overlay))
	program := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./"+router).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, program)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = process.Wait() })
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return addr
		}
	}
	t.Fatal("the program does not listen on " + addr)
	return ""
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
