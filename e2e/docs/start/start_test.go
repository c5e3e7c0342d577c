// Package start has the programs of README.md and docs/start.md.
package start

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// Each program admits 100 requests of a client and denies the next.
func TestPrograms(t *testing.T) {
	for _, router := range []string{"first", "nethttp", "chi", "gin", "echo", "echov5"} {
		t.Run(router, func(t *testing.T) {
			addr := redistest.FreeAddr(t)
			start(t, router, t.TempDir(), addr, "127.0.0.1:8080", addr)
			denied(t, 100, func() (isDenied bool, err error) { // a request refills in 0.6s
				resp, err := http.Get("http://" + addr + "/")
				must.Do(t, err)
				_ = resp.Body.Close()
				switch resp.StatusCode {
				case http.StatusTooManyRequests:
					expect.Equal(t, resp.Header.Get("Retry-After"), "1", "Retry-After")
					return true, nil
				case http.StatusOK:
					return false, nil
				}
				return false, errors.New(resp.Status)
			})
		})
	}
}

// denied checks that call is denied soon after n calls, and none of the first n.
func denied(t *testing.T, n int, call func() (isDenied bool, err error)) {
	t.Helper()
	for i := range n + 10 {
		isDenied, err := call()
		must.True(t, err == nil && (!isDenied || i >= n), "call %d: denied %v, %v", i+1, isDenied, err)
		if isDenied {
			return
		}
	}
	t.Log("no call was denied: the machine is too busy")
}

// TestGRPC does the same for gRPC calls.
func TestGRPC(t *testing.T) {
	addr := redistest.FreeAddr(t)
	start(t, "grpc", t.TempDir(), addr, "127.0.0.1:8080", addr)
	conn := must.Get(grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	denied(t, 100, func() (bool, error) { // a call refills in 0.6s
		_, err := client.Check(t.Context(), new(grpc_health_v1.HealthCheckRequest))
		if status.Code(err) == codes.ResourceExhausted {
			return true, nil
		}
		return false, err
	})
}

// TestMCP calls a tool of the program for MCP 10 times, with the token that the program accepts.
func TestMCP(t *testing.T) {
	addr := redistest.FreeAddr(t)
	start(t, "mcp", t.TempDir(), addr, "127.0.0.1:8080", addr)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://" + addr, HTTPClient: &http.Client{Transport: secret{}}, DisableStandaloneSSE: true,
	}, nil)
	must.Do(t, err)
	defer session.Close()
	denied(t, 10, func() (bool, error) { // a call refills in 6s
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "search", Arguments: map[string]string{"text": "limits"}})
		var denial *jsonrpc.Error
		if errors.As(err, &denial) && denial.Code == -32029 {
			expect.Contains(t, string(denial.Data), `"rules":["search"]`, "the data are %s", denial.Data)
			return true, nil
		}
		return false, err
	})
}

type secret struct{}

func (secret) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return http.DefaultTransport.RoundTrip(r)
}

// start builds a program with some texts replaced, such as its addresses, runs it in dir and waits until it listens on addr.
// It is killed when the test ends.
func start(t *testing.T, name, dir, addr string, replace ...string) *exec.Cmd {
	t.Helper()
	source := must.Get(filepath.Abs(filepath.Join(name, "main.go")))(t)
	text := must.Get(os.ReadFile(source))(t)
	build := t.TempDir()
	write(t, filepath.Join(build, "main.go"), strings.NewReplacer(replace...).Replace(string(text)))
	overlay := must.Get(json.Marshal(map[string]any{"Replace": map[string]string{source: filepath.Join(build, "main.go")}}))(t)
	write(t, filepath.Join(build, "overlay.json"), string(overlay))
	program := filepath.Join(build, "program")
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(build, "overlay.json"), "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, program)
	process.Dir = dir
	must.Do(t, process.Start())
	t.Cleanup(func() { cancel(); _ = process.Wait() })
	redistest.Wait(t, "the program listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return process
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}
