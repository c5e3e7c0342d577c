package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/internal/charts"
)

var (
	//go:embed report/report.html
	pageText string

	//go:embed report/report.js
	pageScript string

	//go:embed report/report.css
	pageStyle string
)

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"grouped": grouped, "percent": percent, "bar": barOf, "rounded": rounded,
	"join": func(s []string) string { return strings.Join(s, ", ") },
}).Parse(pageText))

// A page is a report as HTML. It is self-contained, and its Content-Security-Policy allows nothing else.
type page struct {
	Report  *replay.Report
	Logs    []logReport
	Rules   string // file
	Made    string
	AtStart bool
	Skipped []int // statuses that were left out

	Charts, Script, Data template.JS
	Style                template.CSS
	Icon                 template.URL
}

// write writes p to a file.
func (p *page) write(path string) error {
	p.Made = time.Now().Format("2006-01-02 15:04:05 -07:00")
	p.Charts, p.Script, p.Style = template.JS(charts.Script), template.JS(pageScript), template.CSS(charts.Style+pageStyle) //nolint:gosec // our own text
	p.Icon = template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(charts.Icon)))            //nolint:gosec // our own text
	data, err := json.Marshal(p.data())
	if err != nil {
		return err
	}
	p.Data = template.JS(data) //nolint:gosec // Marshal has escaped what could end the element
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o600) // it names clients
}

// writable returns an error if a file cannot be written, without changing it, or if it is one of the files that are read.
func writable(path string, read []string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return misuse("--html: %v", err)
	}
	page, err := f.Stat()
	for _, name := range read {
		if file, statErr := os.Stat(name); err == nil && statErr == nil && os.SameFile(page, file) {
			err = misuse("--html: the page would overwrite %s", name)
		}
	}
	return errors.Join(err, f.Close())
}

// data returns the data that the script draws.
func (p *page) data() any {
	t := p.Report.Timeline
	_, offset := t.From.Zone()
	shares := [][]int{}
	for _, r := range p.Report.Rules {
		shares = append(shares, r.HitShares)
	}
	return map[string]any{
		"from": t.From.Unix(), "offset": offset, "width": t.Width.Seconds(), "days": p.long(),
		"asked": orEmpty(t.Asked), "denied": orEmpty(t.Denied), "would": orEmpty(t.Would), "rules": shares, "shares": replay.Shares,
	}
}

func orEmpty(list []int) []int { return append([]int{}, list...) }

// long reports whether the time line needs dates.
func (p *page) long() bool { return p.Report.To.Sub(p.Report.From) >= 24*time.Hour }

// Policy allows the scripts and the style of the page by their hashes.
func (p *page) Policy() string {
	return fmt.Sprintf("default-src 'none'; script-src %s %s; style-src %s; img-src data:; base-uri 'none'; form-action 'none'",
		sourceHash(string(p.Charts)), sourceHash(string(p.Script)), sourceHash(string(p.Style)))
}

func sourceHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Names returns the names of the logs.
func (p *page) Names() string {
	const most = 3
	var names []string
	for _, l := range p.Logs[:min(most, len(p.Logs))] {
		names = append(names, filepath.Base(l.Name))
	}
	text := strings.Join(names, ", ")
	if more := len(p.Logs) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Span returns the times of the first and the last request.
func (p *page) Span() string {
	if p.Report.Requests == 0 {
		return ""
	}
	return p.Report.From.Format(time.DateTime) + " to " + p.Report.To.Format(time.DateTime+" MST")
}

// Zone returns the time zone of the report.
func (p *page) Zone() string { return p.Report.From.Format("MST") }

// Range returns a text about how far the number of denied requests may be off, or "".
func (p *page) Range() string {
	if p.Report.AtLeast == nil || *p.Report.AtLeast == p.Report.Denied {
		return ""
	}
	return fmt.Sprintf("; between %s and %s, because the log has whole seconds only", grouped(*p.Report.AtLeast), grouped(p.Report.Denied))
}

// KeysHit returns the rule that hits most keys.
func (p *page) KeysHit() (most replay.RuleReport) {
	for _, r := range p.Report.Rules {
		if r.KeysHit > most.KeysHit {
			most = r
		}
	}
	return most
}

func (p *page) Lines() (n int) {
	for _, l := range p.Logs {
		n += l.Lines
	}
	return n
}

func (p *page) BadLines() (n int) {
	for _, l := range p.Logs {
		n += l.BadLines
	}
	return n
}

// Shares returns the bounds of the columns of RuleReport.HitShares.
func (p *page) Shares() []int { return replay.Shares }

// A column is a column of the time line.
type column struct {
	From                 string
	Asked, Denied, Would int
}

func (p *page) Columns() (all []column) {
	t := p.Report.Timeline
	layout := time.TimeOnly
	if p.long() {
		layout = time.DateTime
	}
	for i := range t.Asked {
		all = append(all, column{t.From.Add(time.Duration(i) * t.Width).Format(layout), t.Asked[i], t.Denied[i], t.Would[i]})
	}
	return all
}

// Doubts returns what the replay cannot know, a sentence each.
func (p *page) Doubts() []string {
	doubts := []string{"Clients react to denials: they wait, retry or give up. The log shows what they did without these rules."}
	if len(p.Skipped) > 0 {
		doubts = append(doubts, fmt.Sprintf("Requests that were answered %s are left out, as --skip-status says.", strings.Trim(fmt.Sprint(p.Skipped), "[]")))
	} else {
		doubts = append(doubts, "Requests that were denied at the time are in the log and count like any other, unless --skip-status leaves them out.")
	}
	if p.AtStart {
		doubts = append(doubts, "Each request is decided at its start: the time of its line minus its duration.")
	} else {
		doubts = append(doubts, "Each request is decided at the time of its line, which is when it ended. A limiter decides when a request begins.")
	}
	switch least := p.Report.AtLeast; {
	case least == nil:
	case *least == p.Report.Denied:
		doubts = append(doubts, "The log has whole seconds only. Whether the requests of a second came at its start or were spread over it changes no sum here.")
	default:
		doubts = append(doubts, fmt.Sprintf("The log has whole seconds only. %s requests are denied if all of a second came at its start, %s if they were spread over it.",
			grouped(p.Report.Denied), grouped(*least)))
	}
	for _, l := range p.Logs {
		if l.Unsorted {
			doubts = append(doubts, filepath.Base(l.Name)+": "+unsortedText(l))
		}
	}
	return append(doubts, "One key may be several people, for example behind one address, and one client may have several keys.")
}

// barOf returns an image of n of all.
func barOf(n, all int) template.HTML {
	return template.HTML(fmt.Sprintf( //nolint:gosec // a number
		`<svg class="share" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect width="%.2f" height="1"/></svg>`, 100*float64(n)/float64(max(1, all))))
}
