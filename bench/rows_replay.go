package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"

	"github.com/spillgate/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/internal/replay"
	"github.com/spillgate/spillgate/rulefile"
)

// perLine counts lines by processor time, whatever the rest of the run counts: a replay uses two cores where it can.
var perLine = unit{columns: []string{"lines/s per core", "allocs"}, more: true}

func replayRows() []*row {
	return []*row{{
		name: "replay, an access log", unit: perLine, maxRounds: 5, open: openReplay,
		task: "What `spillgate replay` does with lines in combined format of 20,000 clients: two rules, of which one has a route, decided at " +
			"whole seconds and spread over them.",
		bounds: []bound{atLeastValue(500_000)},
	}}
}

func openReplay(e *env, f *setup) error {
	const rules = "rules: [{name: login, key: ip, limits: '5/10m, 200/d', match: POST /login}, {name: all, key: ip, limits: 10/s}]"
	file, err := rulefile.Offline("f", []byte(rules))
	if err != nil {
		return err
	}
	log := accessLog(e.scale(400_000))
	cpu := processor()
	f.add(spillgate, ours, func() (sample, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpu()
		r, err := accesslog.NewReader("log", strings.NewReader(log), accesslog.Options{Bare: true})
		if err != nil {
			return nil, err
		}
		rep, err := replay.Run(context.Background(), file, []replay.Source{r}, replay.Options{Knows: func(string) bool { return false }})
		if err != nil || rep.Requests != r.Lines || rep.Refused == 0 && !e.quick {
			return nil, fmt.Errorf("decided %d of %d lines and refused %d: %w", rep.Requests, r.Lines, rep.Refused, err)
		}
		spent := cpu() - start
		runtime.ReadMemStats(&after)
		lines := float64(rep.Requests)
		return sample{lines / spent.Seconds(), float64(after.Mallocs-before.Mallocs) / lines}, nil
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
