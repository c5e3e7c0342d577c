package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
)

// longestLoop is the most requests that a command to try sends.
const longestLoop = 1000

// A report writes the results of the demo to the terminal.
type report struct {
	w    io.Writer
	plan plan
	base string
}

// printf writes to the terminal. It ignores errors, so that a closed terminal does not stop the demo.
func (r *report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.w, format, args...) }

func (r *report) introduce() {
	kept := "in memory"
	if r.plan.redis != "" {
		kept = "in Redis"
	}
	r.printf("Five routers at %s. Each admits %s per %s, kept %s.\n", r.base, inWords(r.plan.limits), r.plan.key.about, kept)
	r.printf("The demo sends requests to each until it denies one, waits for as long as the denial says, and sends one more.\n\n")
}

// answers shows the answers of the routers, and their mistakes.
func (r *report) answers(visits []visit, wrong error) {
	r.table(visits)
	for _, v := range visits {
		if v.err == nil && v.last().status != http.StatusOK {
			r.denial(v)
			break
		}
	}
	if wrong == nil {
		r.printf("All five routers answered as their limits demand.\n")
		return
	}
	r.printf("These answers are wrong:\n")
	for line := range strings.Lines(wrong.Error() + "\n") {
		r.printf("  %s", line)
	}
}

// table shows one line per router.
func (r *report) table(visits []visit) {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	_, _ = io.WriteString(t, row("ROUTER", "ADMITTED", "THEN", "LIMIT", "REMAINING", "RESET", "RETRY-AFTER", "AFTER THE WAIT"))
	for _, v := range visits {
		_, _ = io.WriteString(t, v.row())
	}
	_ = t.Flush()
	for line := range strings.Lines(b.String()) {
		r.printf("%s\n", strings.TrimRight(line, " \n"))
	}
	r.printf("\n")
}

// row returns the line of v in the table: the number of requests that were admitted, and the reply after them.
func (v visit) row() string {
	if len(v.replies) == 0 {
		return row(v.router, "0", "no reply", "-", "-", "-", "-", "-")
	}
	last, then, later := v.last(), "-", "-"
	if last.status != http.StatusOK {
		then = statusLine(last.status)
	}
	if v.later != nil {
		later = statusLine(v.later.status)
	}
	n, _ := readNumbers(last)
	return row(v.router, fmt.Sprint(v.admitted()), then, orDash(n.limit), orDash(n.remaining), orDash(n.reset),
		orDash(last.header.Get("Retry-After")), later)
}

// row returns a line of a table, for a tabwriter.
func row(cells ...string) string { return strings.Join(cells, "\t") + "\n" }

// denial shows all of the last reply of v.
func (r *report) denial(v visit) {
	denied := v.last()
	r.printf("A denial in full, from %s:\n\n  HTTP/1.1 %s\n", v.router, statusLine(denied.status))
	for _, name := range slices.Sorted(maps.Keys(denied.header)) {
		for _, value := range denied.header[name] {
			r.printf("  %s: %s\n", name, value)
		}
	}
	r.printf("\n  %s\n\n", strings.TrimSpace(denied.body))
}

// invite shows commands to go on with.
func (r *report) invite() {
	title := "Try it:"
	if r.plan.once {
		title = "Without --once, the demo keeps serving. Then try:"
	}
	r.printf("\n%s\n\n", title)
	for _, router := range routers {
		r.printf("  curl -i %s%s/%s/hello\n", r.headerFlags(), r.base, router.name)
	}
	if least, _ := admissible(r.plan.limits, 0); least < longestLoop {
		r.printf("  for i in $(seq %d); do curl -so /dev/null -w '%%{http_code}\\n' %s%s/chi/hello; done\n",
			least+1, r.headerFlags(), r.base)
	}
	if r.plan.once {
		return
	}
	r.printf("  for i in 1 2 3 4 5 6; do curl -so /dev/null -w '%%{http_code}\\n' -u ann:wrong -X POST %s/shop/login; done\n", r.base)
	r.printf("    five wrong passwords, then your address gets 429 for an hour; right ones, -u ann:%s, are free until then\n", rightPassword)
	if r.plan.rules != "" {
		r.printf("  edit %s: its limits take effect two seconds later\n", r.plan.rules)
	}
	if r.plan.redis != "" {
		r.printf("  redis-cli CLIENT PAUSE 10000     an outage of ten seconds: watch the page\n")
	}
	r.printf("\nServing until interrupted (Ctrl-C). Open %s/ to watch.\n\n", r.base)
}

// headerFlags returns the curl flags for the headers that the demo sends.
func (r *report) headerFlags() string {
	var flags strings.Builder
	for name, values := range r.plan.key.header {
		flags.WriteString("-H '" + name + ": " + values[0] + "' ")
	}
	return flags.String()
}

func statusLine(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
