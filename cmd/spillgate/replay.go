package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/internal/replay"
	"github.com/spillgate/spillgate/rulefile"
)

// replayFlags are what is typed after replay.
type replayFlags struct {
	rules, format, at, html string
	fields                  map[string]string
	skip                    []int
	json                    bool
}

func newReplay() *cobra.Command {
	var o replayFlags
	cmd := &cobra.Command{
		Use:   "replay --rules FILE LOG...",
		Short: "Say what rules would have done to the requests of access logs",
		Long: "replay decides every line of access logs with the limiter itself, on the clock of the log. Several logs are merged by\n" +
			"time; - is standard input; gzip and zstd are unpacked. Formats: " + strings.Join(accesslog.Formats, ", ") + ".\n" +
			"Rules that need what the logs lack, such as an API key, are left out. Lines that cannot be read are counted and named.\n" +
			"Ctrl-C prints what is known so far.",
		Example: "  spillgate replay --rules spillgate.yaml /var/log/nginx/access.log*\n" +
			"  kubectl logs web | spillgate replay --rules spillgate.yaml --json -\n" +
			"  spillgate replay --rules spillgate.yaml --field client=peer --field header:X-Api-Key=key app.jsonl",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse("replay wants at least one LOG; - is standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	cmd.Flags().AddFlagSet(o.set())
	return cmd
}

func (o *replayFlags) set() *pflag.FlagSet {
	flags := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	flags.StringVar(&o.rules, "rules", "", "rules `file` (required)")
	flags.StringVar(&o.format, "format", "", "`format` of the logs; by default what their first lines look like")
	flags.StringVar(&o.at, "at", "end", "decide requests at their `start|end`; start needs durations in the log")
	flags.StringToStringVar(&o.fields, "field", nil, "in JSON and CSV, which `part=name` is where: time, started, client, user, method, path, request, host, status, duration, header:NAME")
	flags.IntSliceVar(&o.skip, "skip-status", nil, "leave out requests that were answered with this `status`, such as 429")
	flags.StringVar(&o.html, "html", "", "also write the report to this `file`, as a page that opens from disk")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON")
	return flags
}

func (o *replayFlags) run(cmd *cobra.Command, args []string) error {
	if o.rules == "" {
		return misuse("replay wants --rules FILE")
	}
	if o.at != "start" && o.at != "end" {
		return misuse("--at is %q, want start or end", o.at)
	}
	if o.html != "" {
		if err := writable(o.html); err != nil {
			return err
		}
	}
	src, err := rulefile.Read(o.rules)
	if err != nil {
		return misuse("%s", oneLine(err))
	}
	file, err := rulefile.Offline(o.rules, src)
	if err != nil {
		return err
	}
	logs, size, err := o.open(cmd.InOrStdin(), args)
	defer logs.close()
	if err != nil {
		return err
	}
	bar := newProgress(cmd.ErrOrStderr(), size, logs)
	rep, err := replay.Run(cmd.Context(), file, logs.sources(), replay.Options{
		AtStart: o.at == "start", SkipStatus: o.skipped(), Knows: func(need string) bool { return logs.knows(need, o.at == "start") }, Progress: bar.show,
	})
	bar.clear()
	if rep == nil {
		return err
	}
	if o.html != "" {
		p := page{Report: rep, Logs: logs.reports(), Rules: o.rules, AtStart: o.at == "start", Skipped: o.skip}
		err = errors.Join(err, p.write(o.html))
	}
	if o.json {
		err = errors.Join(err, printJSON(cmd.OutOrStdout(), struct {
			*replay.Report
			Logs []logReport `json:"logs"`
		}{rep, logs.reports()}))
		return err
	}
	_, printErr := io.WriteString(cmd.OutOrStdout(), replayText(rep, logs.reports()))
	return errors.Join(err, printErr)
}

func (o *replayFlags) skipped() map[int]bool {
	skipped := make(map[int]bool)
	for _, status := range o.skip {
		skipped[status] = true
	}
	return skipped
}

// openLogs are logs that are being read.
type openLogs []*openLog

type openLog struct {
	*accesslog.Reader
	file io.Closer
	read *countingReader
}

// open opens logs. The size is that of all files, or 0 if it is not known.
func (o *replayFlags) open(stdin io.Reader, names []string) (logs openLogs, size int64, err error) {
	known := true
	for _, name := range names {
		in := stdin
		l := &openLog{}
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return logs, 0, misuse("%v", err)
			}
			info, err := f.Stat()
			if err != nil || !info.Mode().IsRegular() {
				known = false
			} else {
				size += info.Size()
			}
			in, l.file = f, f
		} else {
			known = false
		}
		l.read = &countingReader{r: in}
		if l.Reader, err = accesslog.NewReader(name, l.read, accesslog.Options{Format: o.format, Fields: o.fields}); err != nil {
			logs = append(logs, l)
			return logs, 0, err
		}
		logs = append(logs, l)
	}
	if !known {
		size = 0
	}
	return logs, size, nil
}

func (logs openLogs) close() {
	for _, l := range logs {
		if l.file != nil {
			_ = l.file.Close()
		}
	}
}

func (logs openLogs) sources() []replay.Source {
	sources := make([]replay.Source, len(logs))
	for i, l := range logs {
		sources[i] = l.Reader
	}
	return sources
}

// knows reports whether all logs have what a rule needs.
func (logs openLogs) knows(need string, atStart bool) bool {
	header, isHeader := strings.CutPrefix(need, "header ")
	for _, l := range logs {
		switch {
		case isHeader && !l.Knows(header), need == replay.Durations && (!l.Timed || !atStart):
			return false
		case need == "user" && l.Format == "alb", need == "user" && l.Format == "cloudfront":
			return false
		case need == "host" && (l.Format == "common" || l.Format == "combined" || l.Format == "traefik"):
			return false
		}
	}
	return isHeader || need == "user" || need == "host" || need == replay.Durations
}

// logReport says what was read of a log.
type logReport struct {
	Name     string              `json:"name"`
	Format   string              `json:"format"`
	Lines    int                 `json:"lines"`
	Entries  int                 `json:"entries"`
	Others   int                 `json:"not_requests"`
	BadLines int                 `json:"bad_lines"`
	Bad      []accesslog.BadLine `json:"bad,omitempty"` // the first
}

func (logs openLogs) reports() []logReport {
	reports := make([]logReport, len(logs))
	for i, l := range logs {
		reports[i] = logReport{l.Name, l.Format, l.Lines, l.Entries, l.Others, l.BadSum, l.Bad}
	}
	return reports
}

// countingReader counts what is read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// A progress shows on a terminal how far a replay is.
type progress struct {
	w     io.Writer // nil if it is no terminal
	size  int64
	logs  openLogs
	start time.Time
}

func newProgress(w io.Writer, size int64, logs openLogs) *progress {
	p := &progress{size: size, logs: logs, start: time.Now()}
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
	var read int64
	for _, l := range p.logs {
		read += l.read.n
	}
	spent := time.Since(p.start)
	left := ""
	if p.size > 0 && read > 0 {
		rest := time.Duration(float64(spent) * float64(p.size-read) / float64(read))
		left = fmt.Sprintf("  %3d%%  %v left", 100*read/p.size, rest.Round(time.Second))
	}
	_, _ = fmt.Fprintf(p.w, "\r%s requests%s\x1b[K", grouped(entries), left)
}

func (p *progress) clear() {
	if p.w != nil {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}
