package main

import (
	"fmt"
	"strings"
)

// table renders o in Markdown.
func (o *outcome) table() string {
	var b strings.Builder
	u := o.row.unit
	fmt.Fprintf(&b, "### %s\n\n%s\n\n", o.row.name, o.row.task)
	best, hasPeer := o.best()
	b.WriteString(line("", u.columns[0], "× best peer", u.columns[1:]))
	b.WriteString("|---|--:|--:" + strings.Repeat("|--:", len(u.columns)-1) + "|\n")
	for _, r := range o.results {
		ratio := ""
		if hasPeer {
			ratio = fmt.Sprintf("%.2f", r.sample[0]/best.sample[0])
		}
		var rest []string
		for i, n := range r.sample[1:] {
			cell := number(n)
			if hasPeer && u.ratios {
				cell += fmt.Sprintf(" (%.2f×)", n/best.sample[i+1])
			}
			rest = append(rest, cell)
		}
		b.WriteString(line(label(r), number(r.sample[0]), ratio, rest))
	}
	return b.String()
}

// line returns a line of a table whose columns keep their places in a terminal.
func line(label, first, ratio string, rest []string) string {
	s := fmt.Sprintf("| %-34s | %11s | %11s |", label, first, ratio)
	for _, cell := range rest {
		s += fmt.Sprintf(" %16s |", cell)
	}
	return s + "\n"
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
	case f < 0:
		return "-" + number(-f)
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

// sinceTable lists the bounds of every row against an earlier commit.
func sinceTable(chapters []chapter) string {
	var b strings.Builder
	b.WriteString("| row | bound |\n|---|---|\n")
	for _, c := range chapters {
		for _, o := range c.outcomes {
			s, limit := o.row.since, "at most"
			if s.entry == "" {
				continue
			}
			if o.row.unit.more {
				limit = "at least"
			}
			fmt.Fprintf(&b, "| %s | %s: %s %.2f× the %s |\n", o.row.name, s.entry, limit, s.factor, o.row.unit.columns[0])
		}
	}
	return b.String()
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
