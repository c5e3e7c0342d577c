package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A progress shows the progress of a replay on a terminal.
type progress struct {
	w     io.Writer // nil if it is no terminal
	logs  openLogs
	start time.Time
}

func newProgress(w io.Writer, logs openLogs) *progress {
	p := &progress{logs: logs, start: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w = w
		}
	}
	return p
}

func (p *progress) show(entries int) {
	if p.w == nil {
		return
	}
	var read, size int64
	known := true
	for _, l := range p.logs {
		read += l.read.n
		size += l.size
		known = known && l.size >= 0
	}
	spent := time.Since(p.start)
	left := ""
	if known && size > 0 && read > 0 {
		rest := time.Duration(float64(spent) * float64(size-read) / float64(read))
		left = fmt.Sprintf("  %3d%%  %v left", 100*read/size, rest.Round(time.Second))
	}
	_, _ = fmt.Fprintf(p.w, "\r%s requests%s\x1b[K", grouped(entries), left)
}

func (p *progress) clear() {
	if p.w != nil {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}
