package main

import (
	"fmt"
	"strings"
)

// line is one of a table: its columns keep their places in a terminal.
const line = "| %-34s | %11s | %11s | %16s |\n"

// table renders o in Markdown.
func (o *outcome) table() string {
	var b strings.Builder
	u := o.row.unit
	fmt.Fprintf(&b, "### %s\n\n%s\n\n", o.row.name, o.row.task)
	best, hasPeer := o.best()
	fmt.Fprintf(&b, line, "", u.value, "× best peer", u.extra)
	b.WriteString("|---|--:|--:|--:|\n")
	for _, r := range o.results {
		ratio := ""
		if hasPeer {
			ratio = fmt.Sprintf("%.2f", r.value/best.value)
		}
		fmt.Fprintf(&b, line, label(r), number(r.value), ratio, number(r.extra))
	}
	return b.String()
}

func label(r result) string {
	if r.role == baseline {
		return "baseline: " + r.name
	}
	return r.name
}

func (v check) mark() string {
	if v.holds {
		return "yes"
	}
	return "**no**"
}

// number prints three significant digits, or all those before the decimal point.
func number(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.005:
		return "0.00"
	case f < 10:
		return fmt.Sprintf("%.2f", f)
	case f < 100:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// boundsTable lists every bound of every row.
func boundsTable(chapters []chapter) string {
	var b strings.Builder
	b.WriteString("| row | bound | measured | holds |\n|---|---|---|---|\n")
	for _, c := range chapters {
		for _, o := range c.outcomes {
			for _, v := range o.checks {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", o.row.name, v.bound, v.got, v.mark())
			}
		}
	}
	return b.String()
}
