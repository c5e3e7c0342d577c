package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// perLine counts lines by processor time, whatever the rest of the run counts: a replay uses two cores where it can.
var perLine = unit{columns: []string{"lines/s per core"}, more: true}

func replayRows() []*row {
	return []*row{{
		name: "replay, an access log", unit: perLine, maxRounds: 5, open: openReplay,
		task: "What `spillgate replay` does with lines in combined format of 20,000 clients: two rules, of which one has a route, decided at " +
			"whole seconds and spread over them.",
		bounds: []bound{atLeastValue(500_000)},
	}}
}

// openReplay measures the command as its users run it. Starting the process is part of the processor time.
func openReplay(e *env, f *setup) error {
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		return err
	}
	f.onClose(func() { os.RemoveAll(dir) })
	command, rules, log := filepath.Join(dir, "spillgate"), filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "access.log")
	build := exec.CommandContext(e.ctx, "go", "build", "-o", command, ".")
	build.Dir = filepath.Join("..", "cmd", "spillgate")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	const text = "rules: [{name: login, key: ip, limits: '5/10m, 200/d', match: POST /login}, {name: all, key: ip, limits: 10/s}]"
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		return err
	}
	lines := e.scale(400_000)
	if err := os.WriteFile(log, []byte(accessLog(lines)), 0o600); err != nil {
		return err
	}
	f.add(spillgate, ours, func() (sample, error) {
		replay := exec.CommandContext(e.ctx, command, "replay", "--json", "--rules", rules, log)
		out, err := replay.Output()
		if err != nil {
			return sample{}, err
		}
		var report struct{ Requests int }
		if err := json.Unmarshal(out, &report); err != nil || report.Requests != lines {
			return sample{}, fmt.Errorf("decided %d of %d lines: %w", report.Requests, lines, err)
		}
		spent := replay.ProcessState.UserTime() + replay.ProcessState.SystemTime()
		return sample{float64(lines) / spent.Seconds()}, nil
	})
	return nil
}

// accessLog returns lines of a log of clients drawn by Zipf, 200 a second.
func accessLog(lines int) string {
	var b strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	clients := rand.NewZipf(random, 1.1, 10, 20_000)
	for i := range lines {
		c, second := clients.Uint64(), i/200
		request := fmt.Sprintf("GET /api/users/%d?page=%d", i%5000, i%7)
		if i%20 == 0 {
			request = "POST /login"
		}
		fmt.Fprintf(&b, "203.0.%d.%d - - [10/Oct/2025:%02d:%02d:%02d +0000] \"%s HTTP/1.1\" 200 2326 \"https://example.com/start\" \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n",
			c/250, c%250, second/3600, second/60%60, second%60, request)
	}
	return b.String()
}

// atLeastValue requires that the value of Spillgate is at least n.
func atLeastValue(n float64) bound {
	return func(o *outcome) check {
		got := o.get(spillgate)[0]
		return check{bound: fmt.Sprintf("at least %.0f %s", n, o.row.unit.columns[0]), got: fmt.Sprintf("%.0f", got), holds: got >= n}
	}
}
