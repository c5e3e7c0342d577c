package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/suggest"
)

// suggestText returns the report for people and the rule. Unless the output is a terminal, everything but the rule is a
// comment.
func suggestText(rep *suggest.Report, rule string, logs []logReport, s screen) string {
	var b strings.Builder
	for _, l := range logs {
		b.WriteString(logText(l))
	}
	b.WriteString("\n" + countsText(rep))
	if rep.Chosen != nil {
		b.WriteString("\n" + tableText(rep, s) + "\n" + choiceText(rep) + checkText(rep) + spreadText(rep))
		b.WriteString(mostText(rep) + "\n")
	}
	text := b.String()
	if !s.terminal {
		text = "# " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n# ") + "\n"
		text = strings.ReplaceAll(text, "# \n", "#\n")
	}
	return text + rule
}

func countsText(rep *suggest.Report) string {
	var b strings.Builder
	if rep.Requests == 0 {
		b.WriteString("No request counts")
	} else {
		fmt.Fprintf(&b, "From %s to %s, %s of %s", rep.From.Format(time.DateTime), rep.To.Format(time.DateTime+" MST"), number(rep.Requests, "request"), number(rep.Clients, "client"))
	}
	for _, row := range []struct {
		n    int
		what string
	}{{rep.Others, "do not match"}, {rep.Skipped, "were left out because of their status"}, {rep.Keyless, "have no key"}} {
		if row.n > 0 {
			fmt.Fprintf(&b, "; %s %s", grouped(row.n), row.what)
		}
	}
	b.WriteString(".\n")
	if rep.Keyless > 0 {
		fmt.Fprintf(&b, "The last without a key: %s\n", printableText(oneLine(fmt.Errorf("%s", rep.Error))))
	}
	if rep.Incomplete {
		b.WriteString("Interrupted; the report covers the requests up to then.\n")
	}
	return b.String()
}

// number returns "1 client" or "1,234 clients".
func number(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return grouped(n) + " " + what
}

// tableText returns the table of rates against bursts, as wide as the screen permits.
func tableText(rep *suggest.Report, s screen) string {
	rows := shownRates(rep)
	first := max(len("RATE \\ BURST"), 2)
	bursts := suggest.Bursts(rep)
	cell := 3
	for _, b := range bursts {
		cell = max(cell, len(grouped(b))+3)
	}
	cell = max(cell, len(grouped(rep.Clients))+3)
	bursts = thin(bursts, max(1, (s.width-first-4)/cell), rep.Chosen.Burst)
	var b strings.Builder
	b.WriteString("Clients that a limit would hit, * is suggested:\n\n")
	fmt.Fprintf(&b, "  %-*s", first, "RATE \\ BURST")
	for _, burst := range bursts {
		fmt.Fprintf(&b, "%*s ", cell-1, grouped(burst))
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "\n  %-*s", first, r.Rate)
		for _, burst := range bursts {
			n := grouped(r.HitBy(burst))
			text := fmt.Sprintf("%*s ", cell-1, n)
			if r.Rate == rep.Chosen.Rate && burst == rep.Chosen.Burst {
				text = strings.Repeat(" ", cell-1-len(n)) + s.strong(n+"*")
			}
			b.WriteString(text)
		}
	}
	return trimLines(b.String()) + "\n"
}

func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// shownRates returns the suitable rates, up to the first rate from which faster rates need no smaller burst.
func shownRates(rep *suggest.Report) (rows []suggest.Rate) {
	for i, r := range rep.Rates {
		chosen := r.Rate == rep.Chosen.Rate
		again := i > 0 && len(rows) > 0 && r.Burst == rep.Rates[i-1].Burst && r.Burst == rep.Rates[len(rep.Rates)-1].Burst
		if r.Suitable && !again || chosen {
			rows = append(rows, r)
		}
	}
	return rows
}

// thin returns at most n numbers of a list at even distances, including with.
func thin(list []int, n, with int) (some []int) {
	if len(list) <= n {
		return list
	}
	for i := range n {
		some = append(some, list[i*(len(list)-1)/max(1, n-1)])
	}
	if !slices.Contains(some, with) {
		i, _ := slices.BinarySearch(some, with)
		some[min(i, n-1)] = with
		slices.Sort(some)
	}
	return slices.Compact(some)
}

func choiceText(rep *suggest.Report) string {
	c := rep.Chosen
	text := fmt.Sprintf("%s hits %s of %s (%s).\n", c.Limit, grouped(c.Hit), number(rep.Clients, "client"), percent(c.Hit, rep.Clients))
	share := strconv.FormatFloat(rep.Keep, 'f', -1, 64)
	switch {
	case rep.TooFew > 0:
		text += fmt.Sprintf("--keep %s was not used: ", share)
		if rest := 100 - rep.Keep; float64(rep.Clients)*rest < 100 {
			text += fmt.Sprintf("%s%% of %s is less than one client, and ", restText(rest), number(rep.Clients, "client"))
		}
		text += fmt.Sprintf("it takes %s to tell what burst %s%% of them need.\n", number(rep.TooFew, "client"), share)
		text += gapText(c)
	case rep.Keep < 100:
		text += fmt.Sprintf("If a limit hits at most %s of these clients, it is 95%% certain that it leaves %s%% of all clients like them untouched.\n", grouped(rep.MayHit), share)
	}
	return text
}

func gapText(c *suggest.Choice) string {
	g := c.Gap
	if g == nil {
		return "Instead, the limit hits nobody, because no small group of clients needs more than twice the burst of all others.\n"
	}
	need := " need"
	if g.Clients == 1 {
		need = " needs"
	}
	return fmt.Sprintf("Instead, the limit is in a gap: at %s, %s a burst of %s or more, and no other client more than %s.\n",
		c.Rate, number(g.Clients, "client")+need, grouped(g.Above), grouped(g.Below))
}

// restText returns the rest of a percentage without the noise of floating point.
func restText(rest float64) string { return strconv.FormatFloat(rest, 'g', 3, 64) }

func checkText(rep *suggest.Report) string {
	c := rep.Checked
	if c == nil {
		return "The log is too short to check the limit on its second half.\n"
	}
	text := fmt.Sprintf("The first half of the log alone suggests %s. In the second half, that limit hits %s of %s (%s)",
		c.Limit, grouped(c.Hit), number(c.Clients, "client"), percent(c.Hit, c.Clients))
	if rep.TooFew == 0 {
		text += fmt.Sprintf("; at most %s%% were promised", restText(c.Promised))
	}
	text += ".\n"
	if !c.Holds() {
		text += "The second half is not like the first: take a longer log or a larger burst.\n"
	}
	return text
}

func spreadText(rep *suggest.Report) string {
	if c := rep.Chosen; c.EvenBurst > 0 && c.EvenBurst < c.Burst {
		return fmt.Sprintf("The log has whole seconds only: if the requests of each second are spread over it, a burst of %s is enough instead of %s.\n", grouped(c.EvenBurst), grouped(c.Burst))
	}
	return ""
}

func mostText(rep *suggest.Report) string {
	text := fmt.Sprintf("\nAt %s, these clients need the largest bursts:\n", rep.Chosen.Rate)
	for _, c := range rep.Chosen.Most[:min(hitShown, len(rep.Chosen.Most))] {
		text += fmt.Sprintf("  a burst of %s  %s with %s\n", grouped(c.Burst), printableText(c.Key), number(c.Requests, "request"))
	}
	return text
}
