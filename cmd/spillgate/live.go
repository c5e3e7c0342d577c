package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// showTraffic writes the counts of callers each second until ctx is done, over the counts of the second before. If w is
// not a terminal, it writes them once, at the end.
func showTraffic(ctx context.Context, w io.Writer, callers []*caller) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	over := "" // moves the cursor to the first line of the table
	for {
		select {
		case <-ctx.Done():
			if !terminal(w) {
				_, _ = io.WriteString(w, trafficTable(callers))
			}
			return
		case <-ticker.C:
		}
		if terminal(w) {
			table := trafficTable(callers)
			_, _ = io.WriteString(w, over+table)
			over = fmt.Sprintf("\x1b[%dA\x1b[J", strings.Count(table, "\n"))
		}
	}
}

// trafficTable returns a table with a line for each caller.
func trafficTable(callers []*caller) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	_, _ = io.WriteString(t, "SERVED\tDENIED\tNOT DECIDED\t  CLIENT\n")
	for _, c := range callers {
		_, _ = fmt.Fprintf(t, "%d\t%d\t%d\t  %s\n", c.served.Load(), c.denied.Load(), c.failed.Load(), c.name)
	}
	_ = t.Flush()
	return b.String()
}

// terminal reports whether w is a terminal on which the cursor can move.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
