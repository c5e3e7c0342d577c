package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
)

// How many clients and routes, and lines that could not be read, are printed. JSON has more.
const (
	hitShown = 5
	badShown = 10
)

// replayText returns the report for people.
func replayText(rep *replay.Report, logs []logReport) string {
	var b strings.Builder
	for _, l := range logs {
		b.WriteString(logText(l))
	}
	interrupted := ""
	if rep.Incomplete {
		interrupted = "The replay was interrupted; the report covers the requests up to then.\n"
	}
	skipped := ""
	if rep.Skipped > 0 {
		skipped = fmt.Sprintf("; %s were left out because of their status", grouped(rep.Skipped))
	}
	if rep.Requests == 0 {
		return b.String() + "\nNo request was decided" + skipped + ".\n" + interrupted + leftOutText(rep.LeftOut)
	}
	fmt.Fprintf(&b, "\nFrom %s to %s, %s requests%s.\n", rep.From.Format(time.DateTime), rep.To.Format(time.DateTime+" MST"), grouped(rep.Requests), skipped)
	fmt.Fprintf(&b, "Denied: %s (%s)%s.\n", grouped(rep.Denied), percent(rep.Denied, rep.Requests), rangeText(rep))
	if rep.Would > 0 {
		fmt.Fprintf(&b, "Dry runs would deny %s more (%s).\n", grouped(rep.Would), percent(rep.Would, rep.Requests))
	}
	b.WriteString(interrupted)
	if rep.Failed > 0 {
		fmt.Fprintf(&b, "%s requests could not be decided; the last: %s\n", grouped(rep.Failed), rep.Error)
	}
	b.WriteString(rulesText(rep) + hitText(rep) + waitsText(rep) + routesText(rep) + timelineText(rep.Timeline) + leftOutText(rep.LeftOut))
	b.WriteString("\nDenied clients would have behaved differently, and the log also has requests that were denied at the time.\n")
	return b.String()
}

func logText(l logReport) string {
	text := fmt.Sprintf("%s: %s lines of %s", l.Name, grouped(l.Lines), l.Format)
	if l.Format == "" {
		text = l.Name + ": empty"
	}
	if l.Others > 0 {
		text += fmt.Sprintf(", %s about no request", grouped(l.Others))
	}
	if l.BadLines > 0 {
		text += fmt.Sprintf(", %s could not be read:", grouped(l.BadLines))
		for _, bad := range l.Bad[:min(badShown, len(l.Bad))] {
			text += fmt.Sprintf("\n  line %d: %s", bad.Line, printableText(bad.Why))
		}
		if more := l.BadLines - badShown; more > 0 {
			text += fmt.Sprintf("\n  and %s more", grouped(more))
		}
	}
	if l.Unsorted {
		text += "\n  " + unsortedText(l)
	}
	return text + "\n"
}

func unsortedText(l logReport) string {
	return fmt.Sprintf("%s requests are more than a minute older than one before them, and count at its time. Sort the log by time.", grouped(l.Older))
}

// rangeText returns how far the number of denied requests may be off.
func rangeText(rep *replay.Report) string {
	if rep.AtLeast == nil || *rep.AtLeast == rep.Denied {
		return ""
	}
	return fmt.Sprintf("; %s if the requests of each second were spread over it, because the log has whole seconds only", grouped(*rep.AtLeast))
}

func rulesText(rep *replay.Report) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(t, "\nRULE\tREQUESTS\tDENIED\tSHARE\tKEYS\tHIT\t LIMITS\n")
	for _, r := range rep.Rules {
		limits := strings.Join(r.Limits, ", ")
		if r.DryRun {
			limits += " (dry run)"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t %s\n", r.Name, grouped(r.Asked), grouped(r.Denied), percent(r.Denied, r.Asked), grouped(r.Keys), grouped(r.KeysHit), limits)
	}
	_ = t.Flush()
	return b.String()
}

func hitText(rep *replay.Report) string {
	var b strings.Builder
	for _, r := range rep.Rules {
		if r.Denied == 0 {
			continue
		}
		fmt.Fprintf(&b, "\nHit most by %s:\n", r.Name)
		for _, c := range r.Hit[:min(hitShown, len(r.Hit))] {
			fmt.Fprintf(&b, "  %s of %s requests  %s\n", grouped(c.Denied), grouped(c.Asked), printableText(c.Key))
		}
	}
	return b.String()
}

// waitsText says who would wait for a turn, and for how long.
func waitsText(rep *replay.Report) string {
	var b strings.Builder
	for _, r := range rep.Rules {
		w := r.Waits
		if w == nil {
			continue
		}
		fmt.Fprintf(&b, "\nWould wait for %s: %s of %s requests, %v on average and %v at most:\n", r.Name, grouped(w.Waited), grouped(r.Asked),
			rounded(w.Mean), rounded(w.Longest))
		for _, c := range w.Clients[:min(hitShown, len(w.Clients))] {
			fmt.Fprintf(&b, "  %s requests, %v at most  %s\n", grouped(c.Waited), rounded(c.Longest), printableText(c.Key))
		}
	}
	return b.String()
}

// rounded returns a wait in whole milliseconds.
func rounded(wait time.Duration) time.Duration { return wait.Round(time.Millisecond) }

func routesText(rep *replay.Report) string {
	if len(rep.Routes) == 0 {
		return ""
	}
	text := "\nDenied most:\n"
	for _, r := range rep.Routes[:min(hitShown, len(rep.Routes))] {
		text += fmt.Sprintf("  %s  %s\n", grouped(r.Denied), printableText(r.Route))
	}
	return text
}

// timelineText draws two rows of bars, one of requests and one of those that were denied.
func timelineText(t replay.Timeline) string {
	columns := len(t.Asked)
	width := (columns + 59) / 60 // columns per bar
	if columns == 0 {
		return ""
	}
	return fmt.Sprintf("\nOver time, a bar is %v:\n  requests  %s\n  denied    %s\n", t.Width*time.Duration(width), bars(t.Asked, width), bars(t.Denied, width))
}

func bars(columns []int, width int) string {
	var sums []int
	for c := range slices.Chunk(columns, width) {
		sum := 0
		for _, n := range c {
			sum += n
		}
		sums = append(sums, sum)
	}
	const levels = " ▁▂▃▄▅▆▇█"
	most := max(1, slices.Max(sums))
	var b strings.Builder
	for _, n := range sums {
		b.WriteRune([]rune(levels)[(n*8+most-1)/most])
	}
	return b.String() + fmt.Sprintf("  up to %s", grouped(slices.Max(sums)))
}

func leftOutText(left map[string]string) string {
	if len(left) == 0 {
		return ""
	}
	text := "\nLeft out, because the logs lack what they need:\n"
	for _, name := range slices.Sorted(maps.Keys(left)) {
		text += fmt.Sprintf("  %s: %s\n", name, left[name])
	}
	return text
}

// percent returns n of all in percent.
func percent(n, all int) string {
	if all == 0 {
		return "-"
	}
	p := 100 * float64(n) / float64(all)
	if p > 0 && p < 0.1 {
		return "<0.1%"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + "%"
}

// grouped returns n with commas: 1,234,567.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// printableText replaces the characters that would move the cursor: logs contain what clients send.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
