package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

// A shown is the part of a page's event that describes the rules.
type shown struct {
	File struct {
		Path, Hash, Error string
		Failures          int
	}
	Rules []struct {
		Name   string
		Limits []struct{ Limit string }
	}
}

func (s *shown) shopLimit() string {
	for _, r := range s.Rules {
		if r.Name == "shop" && len(r.Limits) > 0 {
			return r.Limits[0].Limit
		}
	}
	return ""
}

// readPage returns the page's first event.
func readPage(t *testing.T, base string) (s shown) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/events", nil)
	resp := must.Get(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	line := must.Get(bufio.NewReader(resp.Body).ReadString('\n'))(t)
	must.Do(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &s))
	return s
}

// startDemo starts the demo and returns the URL that it serves at. It ends with the test.
func startDemo(t *testing.T, args ...string) (base string) {
	t.Helper()
	stdout, w := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"demo", "--quiet", "--addr", "127.0.0.1:0", "--limits", "1/1s"}, args...), w, t.Output())
		w.Close()
	}()
	t.Cleanup(func() {
		stop()
		expect.Equal(t, <-ended, 0, "the demo ends with")
	})
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	_, rest, _ := strings.Cut(lines.Text(), "http://")
	address, _, _ := strings.Cut(rest, ". ")
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return "http://" + address
}

// wait calls until every 50 ms until it reports true, and returns the sum of its sleeps. On a busy machine, that is less
// than the elapsed time, never more.
func wait(t *testing.T, what string, until func() bool) (slept time.Duration) {
	t.Helper()
	const pause = 50 * time.Millisecond
	for begun := time.Now(); !until(); slept += pause {
		must.True(t, time.Since(begun) <= testTimeout, "still not: %s", what)
		time.Sleep(pause)
	}
	return slept
}

// An edit of the demo's rules changes the decisions and the page within 3 seconds.
func TestEditedRulesOfTheDemo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spillgate.yaml")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(string(shopRules))
	base := startDemo(t, "--rules", path)
	limit := func() string {
		resp := must.Get(http.Get(base + "/shop/items"))(t)
		resp.Body.Close()
		return resp.Header.Get("X-RateLimit-Limit")
	}
	wait(t, "the page shows the file", func() bool { return readPage(t, base).File.Hash != "" })
	before := readPage(t, base)
	if got := limit(); got != "5" || before.shopLimit() != "5/1s" || before.File.Path != path {
		t.Errorf("got the limit %s, and the page shows %+v", got, before)
	}

	write(strings.Replace(string(shopRules), "limits: 5/s", "limits: 7/s", 1))
	took := wait(t, "the limit is 7", func() bool { return limit() == "7" })
	took += wait(t, "the page shows another hash and limit", func() bool {
		now := readPage(t, base)
		return now.File.Hash != before.File.Hash && now.shopLimit() == "7/1s"
	})
	expect.AtMost(t, took, 3*time.Second, "time until the file is active")

	write("rules: [{naem: shop}]")
	wait(t, "the page shows the mistake", func() bool { return strings.Contains(readPage(t, base).File.Error, "naem") })
	now := readPage(t, base)
	expect.True(t, limit() == "7" && now.File.Failures == 1, "a bad file has changed something: %+v", now)
}

func TestRulesOfTheDemo(t *testing.T) {
	expect.Equal(t, len(must.Get(rulefile.Parse(shopRules, shopFuncs))(t).Rules), 3, "built in")
	code, _, stderr := execute(t, "demo", "--rules", filepath.Join(t.TempDir(), "none.yaml"))
	expect.True(t, code == 2 && strings.Contains(stderr, "--rules"), "no such file: exit code %d, %q", code, stderr)
	code, _, stderr = execute(t, "demo", "--rules", fileWith(t, "rules: [{naem: shop}]"))
	expect.True(t, code == 1 && strings.Contains(stderr, ":1:10:"), "a mistake: exit code %d, %q", code, stderr)
}
