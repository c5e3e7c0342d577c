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

` + "`make bench`" + ` wrote this file. The contestants of a row take turns, some 40 ms each (400 ms where callers use Redis or sockets); a
number is the median of their turns, and the column beside it is its ratio to the fastest other library. All get the same
keys in the same order, the same limit and, over HTTP, the same requests and a ResponseWriter that keeps only the header
map, which is cleared for each request. A contestant that decides anything but what the row is about ends the run.
In memory, each contestant has a process of its own. Allocations and bytes allocated are per decision, and so are
instructions, which callgrind counts with few keys. A baseline does only some of the work of a limiter: no limiter that does that work can take less time.

`

const boundsIntro = `# Bounds

` + "`make bench`" + ` wrote this file, in the run that wrote RESULTS.md. It is for those who change Spillgate: a change that moves
a row above its bound needs a reason. ` + "`go run . -rows NAME`" + ` prints the bounds of some rows.

`

const sinceIntro = `
## Against an earlier commit

What a row must not lose to an earlier commit. ` + "`go run . -against COMMIT`" + ` measures it.

`

// results renders RESULTS.md.
func results(e *env, chapters []chapter) string {
	var b strings.Builder
	b.WriteString(method + e.circumstances())
	for _, c := range chapters {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", c.title, c.about)
		for _, o := range c.outcomes {
			b.WriteString("\n" + o.table())
		}
	}
	return b.String()
}

// bounds renders BOUNDS.md.
func bounds(e *env, chapters []chapter) string {
	return boundsIntro + e.circumstances() + "\n" + boundsTable(chapters) + sinceIntro + sinceTable(chapters)
}

// circumstances lists when, where and with what the run was made.
func (e *env) circumstances() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- date: %s, %d rounds, %s\n",
		e.began.UTC().Format("2006-01-02 15:04 MST"), e.rounds, time.Since(e.began).Round(time.Second))
	fmt.Fprintf(&b, "- machine: %s, %d cores, %s/%s\n", cpuModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(&b, "- load average before and after: %s, %s\n", e.load0, loadAverage())
	if e.busy {
		b.WriteString("- time: of the processor, except in Redis, because the machine did other things meanwhile\n")
	}
	fmt.Fprintf(&b, "- versions: %s%s\n", strings.Join(versions(), ", "), e.redisVersion())
	return b.String()
}

// compared matches the modules whose versions matter to the results.
var compared = regexp.MustCompile(
	`go-limiter|httprate|ulule|throttled|redis_rate|go-redis/v9|vegeta|labstack/echo|gin-gonic/gin|x/time|org/grpc`)

// versions lists the compared modules, as they are built into this program.
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

// cpuModel returns the name of the CPU, on Linux.
func cpuModel() string {
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

// loadAverage returns the load average of the last minute, on Linux.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
