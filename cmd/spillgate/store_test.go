package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

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
	if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "spillgate: cannot reach Redis at "+addr+": ") ||
		strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "secret") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestRedisIsShared(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	args := []string{"demo", "--once", "--addr", "127.0.0.1:0", "--limits", "3/1h", "--redis", "redis://" + server.Addr()}
	if code, stdout, stderr := execute(t, args...); code != 0 || strings.Count(stdout, "   3          429 ") != len(routers) || !strings.Contains(stdout, "kept in Redis") {
		t.Fatalf("first run: exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	for _, key := range server.Keys() {
		if !strings.HasPrefix(key, "spillgate-demo") {
			t.Errorf("key %q could be an application's", key)
		}
	}
	code, stdout, stderr := execute(t, args...)
	if code != 0 || strings.Count(stdout, "   0          429 ") != len(routers) || stderr != "" {
		t.Fatalf("second run: exit code %d, stderr %q; it must be denied what the first has used, stdout:\n%s", code, stderr, stdout)
	}
}

func TestServesWithoutRedis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	var stderr lockedBuffer
	p := start(t, &stderr, "demo", "--addr", "127.0.0.1:0", "--limits", "1/1h", "--trust", "127.0.0.0/8", "--redis", "redis://"+server.Addr())
	base := p.base(t)
	p.await(t, "Serving until interrupted")
	server.Close()
	resp := get(t, base+"/chi/hello") // from a client other than the demo's own, which stays denied
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /chi/hello: %s, want it admitted from memory", resp.Status)
	}
	must.Do(t, p.Process.Signal(os.Interrupt))
	if err := p.Wait(); err != nil || !strings.Contains("\n"+stderr.b.String(), "\nspillgate: Redis did not decide") { // the limiters log as well
		t.Errorf("%v, stderr %q", err, stderr.b.String())
	}
}

func TestWarnDegraded(t *testing.T) {
	var stderr strings.Builder
	observe := warnDegraded(&stderr)
	down := core.Observation{Decision: core.Decision{Degraded: fmt.Errorf("%w: connection refused", core.ErrUnavailable)}}
	for _, step := range []struct {
		why  string
		o    core.Observation
		want string
	}{
		{"all is well", core.Observation{}, ""},
		{"a request without a key says nothing about Redis", core.Observation{Err: core.ErrNoKey}, ""},
		{"Redis is gone", down, "spillgate: Redis did not decide; this process enforces the limits from its own memory: store unavailable: connection refused\n"},
		{"the outage is not reported again", down, ""},
		{"a request at fault does not bring it back", core.Observation{Err: errors.New("panic")}, ""},
		{"it is back", core.Observation{}, "spillgate: Redis decides again\n"},
		{"the recovery is not reported again", core.Observation{}, ""},
	} {
		stderr.Reset()
		if observe(context.Background(), &step.o); stderr.String() != step.want {
			t.Errorf("%s: said %q, want %q", step.why, stderr.String(), step.want)
		}
	}
}
