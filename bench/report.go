package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

const method = `# Results

` + "`make bench`" + ` wrote this file. The contestants of a row take turns, some 40 ms each (400 ms where callers use Redis); a
number is the median of their turns, and what counts is its ratio to that of the fastest peer. All get the same keys in
the same order, the same limit and, over HTTP, the same request and ResponseWriter, which keeps nothing. A contestant that
decides anything but what the row is about ends the run. Allocations are per decision.

`

// report renders everything that RESULTS.md holds.
func report(e *env, outcomes []*outcome) string {
	var b strings.Builder
	b.WriteString(method)
	fmt.Fprintf(&b, "- date: %s, %d rounds, %s\n",
		e.began.UTC().Format("2006-01-02 15:04 MST"), e.rounds, time.Since(e.began).Round(time.Second))
	fmt.Fprintf(&b, "- machine: %s, %d cores, %s/%s\n", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(&b, "- load average before and after: %s, %s\n", e.load0, loadAverage())
	fmt.Fprintf(&b, "- versions: %s%s\n", strings.Join(versions(), ", "), e.redisVersion())
	b.WriteString("\n## Bounds\n\n" + summary(outcomes) + "\n## Rows\n")
	for _, o := range outcomes {
		b.WriteString("\n" + o.table())
	}
	return b.String()
}

// compared matches the modules whose versions matter to the results.
var compared = regexp.MustCompile(
	`go-limiter|httprate|ulule|throttled|redis_rate|go-redis/v9|labstack/echo|gin-gonic/gin|x/time`)

// versions lists the modules that take part, as they are built into this program.
func versions() []string {
	list := []string{runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return list
	}
	for _, m := range info.Deps {
		if compared.MatchString(m.Path) {
			list = append(list, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
		}
	}
	return list
}

// processor names the CPU, where the system tells.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range bytes.Lines(text) {
		if name, found := strings.CutPrefix(string(line), "model name"); found {
			return strings.Trim(name, " \t:\n")
		}
	}
	return "unknown processor"
}

// loadAverage says how busy the machine is, this program included, where the system tells.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
