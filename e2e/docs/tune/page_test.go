package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// A walk follows docs/tune.md in a directory with the access log.
type walk struct {
	t      *testing.T
	dir    string
	output string            // of the last commands
	ports  *strings.Replacer // replaces the page's ports with free ones
	addr   string            // of the server
	page   string
	yaml   int
}

// Each command of the page works as the page says, in order.
func TestTunePage(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/tune.md"))(t)
	w := &walk{t: t, dir: t.TempDir(), addr: redistest.FreeAddr(t), page: redistest.FreeAddr(t)}
	w.ports = strings.NewReplacer("127.0.0.1:8080", w.addr, "127.0.0.1:8081", w.page)
	w.write("access.log", accessLog())
	w.run("go", "build", "-C", "../../../cmd/spillgate", "-o", filepath.Join(w.dir, "spillgate"), ".")
	for _, block := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		switch block[1] {
		case "sh":
			w.commands(block[2])
		case "text":
			w.wantOutput(block[2])
		case "yaml":
			w.rules(block[2])
		case "go":
			w.program(block[2])
		}
	}
	expect.True(t, w.yaml == 3 && w.output == "", "saw %d files of rules, want 3, and the server last", w.yaml)
}

func (w *walk) write(name, text string) {
	w.t.Helper()
	must.Do(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
}

func (w *walk) run(name string, args ...string) string {
	w.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// commands runs the commands of a block, except for the installation of the program and the server.
func (w *walk) commands(block string) {
	w.t.Helper()
	switch block {
	case "go install github.com/spillgate/spillgate/cmd/spillgate@latest\n":
	case "go build -o server .\n./server\n":
		w.serve()
	default:
		w.output = w.run("bash", "-ec", `cd "$0"; PATH="$0:$PATH"; `+block, w.dir)
	}
}

// wantOutput checks that the last commands printed each line of a block.
func (w *walk) wantOutput(block string) {
	w.t.Helper()
	for line := range strings.Lines(block) {
		if !strings.Contains(w.output, strings.TrimRight(line, "\n")+"\n") {
			w.t.Errorf("the page says\n%sbut the commands\n%s", line, w.output)
		}
	}
}

// rules saves a file of rules. The first time, it checks that the file is the suggested one.
func (w *walk) rules(block string) {
	w.t.Helper()
	if w.yaml++; w.yaml == 1 {
		if !strings.HasSuffix(w.output, "\n"+block) {
			w.t.Errorf("the page has\n%sbut suggest prints\n%s", block, w.output)
		}
		return
	}
	w.write("spillgate.yaml", block)
	if w.yaml == 3 {
		redistest.Wait(w.t, "the rule to be enforced", func() bool { return w.login() == http.StatusTooManyRequests })
	}
}

// program checks that the program of the page is main.go.
func (w *walk) program(block string) {
	w.t.Helper()
	text, err := os.ReadFile("main.go")
	if err != nil || string(text) != block {
		w.t.Errorf("main.go is not the program of the page: %v", err)
	}
}

// serve builds the program with free ports and runs it until the end of the test. Its rules are dry runs.
func (w *walk) serve() {
	w.t.Helper()
	source := must.Get(filepath.Abs("main.go"))(w.t)
	w.write("main.go", w.ports.Replace(string(must.Get(os.ReadFile(source))(w.t))))
	overlay := must.Get(json.Marshal(map[string]any{"Replace": map[string]string{source: filepath.Join(w.dir, "main.go")}}))(w.t)
	w.write("overlay.json", string(overlay))
	w.run("go", "build", "-overlay", filepath.Join(w.dir, "overlay.json"), "-o", filepath.Join(w.dir, "server"), ".")
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, filepath.Join(w.dir, "server"))
	process.Dir = w.dir
	var log bytes.Buffer
	process.Stderr = &log
	must.Do(w.t, process.Start())
	w.t.Cleanup(func() {
		cancel()
		if _ = process.Wait(); w.t.Failed() {
			w.t.Logf("the server logged\n%s", &log)
		}
	})
	w.output = ""
	redistest.Wait(w.t, "the server to listen", func() bool { return w.login() != 0 })
	for range 20 {
		if status := w.login(); status != http.StatusUnauthorized {
			w.t.Fatalf("a dry run answered %d", status)
		}
	}
	redistest.Wait(w.t, "the page to count what would be denied", func() bool { return strings.Contains(w.data(), `"would_deny"`) })
}

func (w *walk) data() string {
	resp, err := http.Get("http://" + w.page + "/events")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	for {
		line, err := events.ReadString('\n')
		if strings.HasPrefix(line, "data: ") || err != nil {
			return line
		}
	}
}

func (w *walk) login() int {
	resp, err := http.Post("http://"+w.addr+"/login", "", nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
