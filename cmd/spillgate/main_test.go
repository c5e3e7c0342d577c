package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// asCommand is the environment variable that makes the test binary run as the command, for tests that send signals.
const asCommand = "SPILLGATE_TEST_AS_COMMAND"

const testTimeout = time.Minute

func TestMain(m *testing.M) {
	pingTimeout, storeTimeout = testTimeout, testTimeout
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// execute runs the command line in this process, for at most testTimeout.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var out, errs expect.Buffer
	code = run(ctx, args, &out, &errs)
	must.Equal(t, ctx.Err(), nil, "%q was not done within %v", args, testTimeout)
	return code, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"help"}} {
		code, stdout, stderr := execute(t, args...)
		expect.True(t, code == 0 && stderr == "" && strings.Contains(stdout, "  demo "),
			"%q: exit code %d, stderr %q, stdout:\n%s", args, code, stderr, stdout)
	}
	code, stdout, _ := execute(t, "demo", "--help")
	for _, flag := range []string{"--addr", "--limits", "--key", "--headers", "--trust", "--redis", "--rules", "--once"} {
		expect.True(t, code == 0 && strings.Contains(stdout, flag+" "), "demo --help: exit code %d, without %s", code, flag)
	}
	for _, command := range []string{"replay", "suggest"} {
		_, stdout, _ := execute(t, command, "--help")
		expect.True(t, !strings.Contains(stdout, "(default [])"), "%s --help shows an empty default:\n%s", command, stdout)
	}
	code, stdout, _ = execute(t, "--version")
	expect.True(t, code == 0 && strings.HasPrefix(stdout, "spillgate version "), "--version: exit code %d, %q", code, stdout)
}

func TestBadCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string // on stderr
	}{
		{"serve", `there is no command "serve"; see spillgate --help`},
		{"dmeo", `there is no command "dmeo"; did you mean demo?`},
		{"help dmeo", `there is no command "dmeo"; did you mean demo?`},
		{"demo now", `demo takes no arguments, got "now"`},
		{"demo --color", "unknown flag: --color\n"},
		{"replay --rule x", "unknown flag: --rule; did you mean --rules?"},
		{"demo --once=perhaps", `invalid argument "perhaps" for "--once"`},
		{"demo --addr localhost", "--addr: \"localhost\" is not an address"},
		{"demo --addr 127.0.0.1:70000", "--addr: \"127.0.0.1:70000\" is not an address"},
		{"demo --limits 5/x", `--limits: limit "5/x": period "x"`},
		{"demo --limits=", `--limits: limit ""`},
		{"demo --limits 5/s,6/s", `--limits: limits "5/s,6/s"`},
		{"demo --limits 5/s;sliding-log;burst=9", `--limits: limit "5/s;sliding-log;burst=9"`},
		{"demo --key session", `--key: "session" is not`},
		{"demo --key header", `--key: "header" is not`},
		{"demo --key header:", `--key: "" is not the name of a header`},
		{"demo --key apikey:X-Ä", `--key: "X-Ä" is not the name of a header`},
		{"demo --key header:X'Y", `--key: "X'Y" is not the name of a header`},
		{"demo --key header:host", `--key: the demo cannot send a host`},
		{"demo --headers draft", `--headers: "draft" is not`},
		{"demo --trust 10.0.0.1", `--trust: "10.0.0.1" is not an address range`},
		{"demo --trust 10.0.0.0/8 --trust 0.0.0.0/0", "--trust: "},
		{"demo --trust 10.0.0.0/8 --key header:X-Tenant", "--trust says whose X-Forwarded-For"},
		{"demo --redis http://127.0.0.1", "--redis: want a URL such as redis://"},
	} {
		code, stdout, stderr := execute(t, strings.Fields(tt.args)...)
		expect.True(t, code == 2 && stdout == "", "%s: exit code %d, want 2; stdout %q", tt.args, code, stdout)
		expect.True(t, strings.HasPrefix(stderr, "spillgate: "+tt.want) && strings.Count(stderr, "\n") == 1,
			"%s: stderr %q, want one line with %q", tt.args, stderr, tt.want)
	}
	_, _, stderr := execute(t, "demo", "--redis", "redis://:se%zzcret@127.0.0.1")
	expect.True(t, !strings.Contains(stderr, "cret"), "the password is shown: %s", stderr)
}

type badCall struct {
	args []string
	code int
	want string // on stderr
}

func checkBadCalls(t *testing.T, command string, calls []badCall) {
	t.Helper()
	for _, tt := range calls {
		code, stdout, stderr := execute(t, append([]string{command}, tt.args...)...)
		isQuoted := strings.Contains(stderr, "\n    1 |")                                       // a line of a file
		isSilent := stdout == "" || command == "suggest" && !strings.Contains(stdout, "rules:") // suggest says which logs it has read
		expect.True(t, code == tt.code && isSilent && strings.Contains(stderr, tt.want) && (isQuoted || strings.Count(stderr, "\n") == 1),
			"%s %q: exit code %d, stdout %q, stderr %q; want %d, %q", command, tt.args, code, stdout, stderr, tt.code, tt.want)
	}
}

func TestBusyPort(t *testing.T) {
	addr := listenQuietly(t).Addr().String()
	code, stdout, stderr := execute(t, "demo", "--addr", addr)
	want := "spillgate: cannot listen on " + addr + ": the port is in use; choose another with --addr\n"
	expect.True(t, code == 1 && stdout == "" && stderr == want, "exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, want)
}

func listenQuietly(t *testing.T) net.Listener {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { ln.Close() })
	return ln
}

type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, stderr io.Writer, args ...string) process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stderr = stderr
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	return process{cmd, bufio.NewScanner(stdout)}
}

// await reads lines up to one that starts with prefix, and returns it.
func (p process) await(t *testing.T, prefix string) string {
	t.Helper()
	for p.lines.Scan() {
		if strings.HasPrefix(p.lines.Text(), prefix) {
			return p.lines.Text()
		}
	}
	t.Fatalf("the command ended before it said %q", prefix)
	return ""
}

func (p process) base(t *testing.T) (base string) {
	t.Helper()
	must.Get(fmt.Sscanf(p.await(t, "Five routers"), "Five routers at %s", &base))(t)
	return strings.TrimSuffix(base, ".")
}

// get returns the response of url, without its body.
func get(t *testing.T, url string) *http.Response {
	t.Helper()
	client := http.Client{Timeout: testTimeout}
	resp := must.Get(client.Get(url))(t)
	resp.Body.Close()
	return resp
}

func TestServesUntilInterrupted(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		p := start(t, t.Output(), "demo", "--addr", "127.0.0.1:0", "--limits", "2/2s")
		base := p.base(t)
		p.await(t, "Serving until interrupted")
		resp := get(t, base+"/gin/hello")
		expect.Equal(t, resp.Header.Get("X-RateLimit-Limit"), "2", "headers of a request by hand: %v", resp.Header)
		must.Do(t, p.Process.Signal(sig))
		expect.NoError(t, p.Wait(), "after %v", sig)
	}
}

func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"": 0, "--once": 1} {
		var stderr expect.Buffer
		p := start(t, &stderr, append([]string{"demo", "--addr", "127.0.0.1:0", "--limits", "1/50s"}, strings.Fields(args)...)...)
		p.await(t, "The demo sends requests")
		begin := time.Now()
		must.Do(t, p.Process.Signal(os.Interrupt))
		if p.Wait(); p.ProcessState.ExitCode() != want || time.Since(begin) > testTimeout/2 {
			t.Errorf("%q: %v after %v, want exit code %d", args, p.ProcessState, time.Since(begin), want)
		}
		if said := stderr.String(); strings.HasPrefix(said, "spillgate: interrupted before every router had answered\n") != (want == 1) {
			t.Errorf("%q: stderr %q", args, said)
		}
	}
}

// Each command has an example, which it accepts as a command line.
func TestExamplesOfHelp(t *testing.T) {
	root := newRoot()
	for _, c := range append(root.Commands(), root) {
		if c.Name() == "help" {
			continue
		}
		lines := 0
		for line := range strings.Lines(c.Example) {
			if line, _, _ = strings.Cut(line, " # "); strings.Contains(line, "spillgate ") {
				lines++
				checkExample(t, line)
			}
		}
		expect.NotEqual(t, lines, 0, "%s has no example", c.Name())
	}
}

// checkExample parses the arguments of a shell line with a fresh command.
func checkExample(t *testing.T, line string) {
	t.Helper()
	_, args, _ := strings.Cut(line, "spillgate ")
	args, _, _ = strings.Cut(args, " > ")
	var words []string
	for i, quoted := range strings.Split(strings.TrimSpace(args), "'") {
		if i%2 == 1 {
			words = append(words, quoted)
		} else {
			words = append(words, strings.Fields(quoted)...)
		}
	}
	c, rest, err := newRoot().Find(words)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err == nil {
		err = c.ValidateRequiredFlags()
	}
	expect.True(t, err == nil && c.HasParent(), "%q: %v", line, err)
}

func TestRedisOutOfReach(t *testing.T) {
	ln := listenQuietly(t)
	addr := ln.Addr().String()
	go func() { // a port on which nobody listens might be used by another test
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	code, stdout, stderr := execute(t, "demo", "--addr", "127.0.0.1:0", "--redis", "redis://:secret@"+addr)
	expect.True(t, code == 1 && stdout == "" && strings.HasPrefix(stderr, "spillgate: cannot reach Redis at "+addr+": ") &&
		strings.Count(stderr, "\n") == 1 && !strings.Contains(stderr, "secret"),
		"exit code %d, stdout %q, stderr %q", code, stdout, stderr)
}

func TestRedisIsShared(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	args := []string{"demo", "--once", "--addr", "127.0.0.1:0", "--limits", "3/1h", "--redis", "redis://" + server.Addr()}
	if code, stdout, stderr := execute(t, args...); code != 0 || strings.Count(stdout, "   3          429 ") != len(routers) || !strings.Contains(stdout, "kept in Redis") {
		t.Fatalf("first run: exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	for _, key := range server.Keys() {
		expect.True(t, strings.HasPrefix(key, "spillgate-demo"), "key %q could be an application's", key)
	}
	code, stdout, stderr := execute(t, args...)
	must.True(t, code == 0 && strings.Count(stdout, "   0          429 ") == len(routers) && stderr == "",
		"second run: exit code %d, stderr %q; it must be denied what the first has used, stdout:\n%s", code, stderr, stdout)
}

func TestServesWithoutRedis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	var stderr expect.Buffer
	p := start(t, &stderr, "demo", "--addr", "127.0.0.1:0", "--limits", "1/1h", "--trust", "127.0.0.0/8", "--redis", "redis://"+server.Addr())
	base := p.base(t)
	p.await(t, "Serving until interrupted")
	server.Close()
	resp := get(t, base+"/chi/hello") // from a client other than the demo's own, which stays denied
	expect.Equal(t, resp.StatusCode, http.StatusOK, "GET /chi/hello: %s (it admitted from memory)", resp.Status)
	must.Do(t, p.Process.Signal(os.Interrupt))
	if err := p.Wait(); err != nil || !strings.Contains("\n"+stderr.String(), "\nspillgate: Redis did not decide") { // the limiters log as well
		t.Errorf("%v, stderr %q", err, stderr.String())
	}
}

func TestWarnDegraded(t *testing.T) {
	var stderr strings.Builder
	observe := warnDegraded(&stderr)
	down := core.Observation{Decision: core.Decision{Degraded: fmt.Errorf("%w: connection lost", core.ErrUnavailable)}}
	for _, step := range []struct {
		why  string
		o    core.Observation
		want string
	}{
		{"all is well", core.Observation{}, ""},
		{"a request without a key says nothing about Redis", core.Observation{Err: core.ErrNoKey}, ""},
		{"Redis is gone", down, "spillgate: Redis did not decide; this process enforces the limits from its own memory: store unavailable: connection lost\n"},
		{"the outage is not reported again", down, ""},
		{"a request at fault does not bring it back", core.Observation{Err: errors.New("panic")}, ""},
		{"it is back", core.Observation{}, "spillgate: Redis decides again\n"},
		{"the recovery is not reported again", core.Observation{}, ""},
	} {
		stderr.Reset()
		observe(context.Background(), &step.o)
		expect.Equal(t, stderr.String(), step.want, "%s: said", step.why)
	}
}
