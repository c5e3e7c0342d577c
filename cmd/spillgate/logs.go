package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/rulefile"
)

// logFlags say how to read access logs.
type logFlags struct {
	format, at string
	fields     map[string]string
	skip       []int
	json       bool
}

func (o *logFlags) set(command string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	flags.StringVar(&o.format, "format", "", "`format` of the logs; by default detected from their first lines")
	flags.StringVar(&o.at, "at", "end", "decide requests at their `start|end`; start needs durations in the log")
	flags.StringToStringVar(&o.fields, "field", nil, "for JSON and CSV: `part=name` says which field has a part of the request: time, started, client, user, method, path, request, host, status, duration or, with a unit, duration_s, duration_ms, duration_us, duration_ns; header:NAME")
	flags.Lookup("field").DefValue = "" // otherwise the help shows []
	flags.IntSliceVar(&o.skip, "skip-status", nil, "leave out requests that were answered with this `status`, such as 429")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON")
	return flags
}

func (o *logFlags) check() error {
	if o.at != "start" && o.at != "end" {
		return misuse("--at is %q, want start or end", o.at)
	}
	if o.format != "" && !slices.Contains(accesslog.Formats, o.format) {
		return misuse("--format: unknown format %q; want %s", o.format, strings.Join(accesslog.Formats, ", "))
	}
	for _, part := range slices.Sorted(maps.Keys(o.fields)) {
		if !slices.Contains(accesslog.Parts, part) && (!strings.HasPrefix(part, "header:") || part == "header:") {
			return misuse("--field: unknown part %q; want %s or header:NAME", part, strings.Join(accesslog.Parts, ", "))
		}
	}
	return nil
}

func wantLogs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misuse("%s wants at least one LOG; - is standard input", cmd.Name())
	}
	if i := slices.Index(args, "-"); i >= 0 && slices.Contains(args[i+1:], "-") {
		return misuse("%s can read standard input only once", cmd.Name())
	}
	return nil
}

// options returns how to replay logs.
func (o *logFlags) options(logs openLogs, bar *progress) replay.Options {
	skipped := make(map[int]bool)
	for _, status := range o.skip {
		skipped[status] = true
	}
	atStart := o.at == "start"
	return replay.Options{
		AtStart: atStart, SkipStatus: skipped, Knows: func(need string) bool { return logs.knows(need, atStart) }, Progress: bar.show,
	}
}

// openLogs are logs that are being read.
type openLogs []*openLog

type openLog struct {
	*accesslog.Reader
	file io.Closer
	read *countingReader
	size int64 // -1 if it is not known
}

// open opens logs for the rules of a file.
func (o *logFlags) open(cmd *cobra.Command, names []string, f *rulefile.File) (logs openLogs, err error) {
	options := accesslog.Options{Format: o.format, Fields: o.fields, Bare: !replay.NeedsHeader(f)}
	for _, name := range names {
		l := &openLog{size: -1, read: &countingReader{}}
		logs = append(logs, l)
		if name == "-" {
			l.read.r = until(cmd.Context(), cmd.InOrStdin())
		} else if err = l.open(name); err != nil {
			return logs, misuse("%v", err)
		}
		if l.Reader, err = accesslog.NewReader(name, l.read, options); err != nil {
			return logs, err
		}
	}
	return logs, nil
}

func (l *openLog) open(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	l.read.r, l.file = f, f
	switch info, err := f.Stat(); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory", name)
	case err == nil && info.Mode().IsRegular():
		l.size = info.Size()
	}
	return nil
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

// knows reports whether all logs that have requests have what a rule needs.
func (logs openLogs) knows(need string, atStart bool) bool {
	header, isHeader := strings.CutPrefix(need, "header ")
	for _, l := range logs {
		switch {
		case l.Format == "":
		case isHeader && !l.Knows(header), need == replay.Durations && (!l.First.Timed && l.First.Entries > 0 || !atStart):
			return false
		case need == replay.Statuses && !l.First.Statuses && l.First.Entries > 0:
			return false
		case need == "user" && (l.Format == "alb" || l.Format == "cloudfront" || l.Format == "envoy"):
			return false
		case need == "host" && (l.Format == "common" || l.Format == "combined" || l.Format == "traefik"):
			return false
		}
	}
	return isHeader || need == "user" || need == "host" || need == replay.Durations || need == replay.Statuses
}

// logReport counts the lines of a log.
type logReport struct {
	Name     string              `json:"name"`
	Format   string              `json:"format"`
	Lines    int                 `json:"lines"`
	Entries  int                 `json:"entries"`
	Older    int                 `json:"older"` // more than a minute older than an entry before them
	Unsorted bool                `json:"unsorted"`
	Others   int                 `json:"not_requests"`
	BadLines int                 `json:"bad_lines"`
	Bad      []accesslog.BadLine `json:"bad,omitempty"` // the first
}

func (logs openLogs) reports() []logReport {
	reports := make([]logReport, len(logs))
	for i, l := range logs {
		reports[i] = logReport{l.Name, l.Format, l.Lines, l.Entries, l.Older, l.Unsorted(), l.Others, l.BadSum, l.Bad}
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

// until returns a reader of r that ends with ctx, even while a read of r blocks.
func until(ctx context.Context, r io.Reader) io.Reader {
	pipe, w := io.Pipe()
	go func() {
		_, err := io.CopyBuffer(w, struct{ io.Reader }{r}, make([]byte, 256<<10))
		_ = w.CloseWithError(err) // nil is EOF
	}()
	context.AfterFunc(ctx, func() { _ = w.Close() })
	return pipe
}
