package main

import (
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/rulefile"
)

// replayFlags are the flags of the command replay.
type replayFlags struct {
	logFlags
	rules, html string
}

func newReplay() *cobra.Command {
	var o replayFlags
	cmd := &cobra.Command{
		Use:   "replay --rules FILE LOG...",
		Short: "Show what rules would have done to the requests of access logs",
		Long: "replay decides every request in access logs with the limiter itself, by the time in the log. It merges several logs by\n" +
			"time, unpacks gzip and zstd, and reads standard input as -. It leaves out rules that need something the logs lack, such\n" +
			"as an API key, and reports lines that it cannot read. After Ctrl-C, it prints the report so far.\n" +
			"Formats: " + strings.Join(accesslog.Formats, ", ") + ".",
		Example: "  spillgate replay --rules spillgate.yaml /var/log/nginx/access.log*\n" +
			"  kubectl logs web | spillgate replay --rules spillgate.yaml --json -\n" +
			"  spillgate replay --rules spillgate.yaml --field client=peer --field header:X-Api-Key=key app.jsonl",
		Args: wantLogs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	cmd.Flags().AddFlagSet(o.set())
	return cmd
}

func (o *replayFlags) set() *pflag.FlagSet {
	flags := o.logFlags.set("replay")
	flags.StringVar(&o.rules, "rules", "", "rules `file` (required)")
	flags.StringVar(&o.html, "html", "", "also write the report to this `file`, as a page that opens from disk")
	return flags
}

// file reads the rules file.
func (o *replayFlags) file() (*rulefile.File, error) {
	src, err := rulefile.Read(o.rules)
	if err != nil {
		return nil, misuse("%s", oneLine(err))
	}
	return rulefile.Offline(o.rules, src)
}

func (o *replayFlags) run(cmd *cobra.Command, args []string) error {
	if o.rules == "" {
		return misuse("replay wants --rules FILE")
	}
	if err := o.check(); err != nil {
		return err
	}
	file, err := o.file()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a replay keeps a few bytes per client and drops all else with each line
	}
	logs, err := o.open(cmd, args, file)
	defer logs.close()
	if err != nil {
		return err
	}
	if o.html != "" { // a failure before leaves no empty file
		if err := writable(o.html, append(args, o.rules)); err != nil {
			return err
		}
	}
	bar := newProgress(cmd.ErrOrStderr(), logs)
	rep, err := replay.Run(cmd.Context(), file, logs.sources(), o.options(logs, bar))
	bar.clear()
	if rep == nil {
		return err
	}
	return errors.Join(err, o.print(cmd.OutOrStdout(), rep, logs.reports()))
}

// print writes the page, if one is wanted, and prints the report.
func (o *replayFlags) print(w io.Writer, rep *replay.Report, logs []logReport) (err error) {
	if o.html != "" {
		p := page{Report: rep, Logs: logs, Rules: o.rules, AtStart: o.at == "start", Skipped: o.skip}
		err = p.write(o.html)
	}
	if o.json {
		return errors.Join(err, printJSON(w, struct {
			*replay.Report
			Logs []logReport `json:"logs"`
		}{rep, logs}))
	}
	_, printErr := io.WriteString(w, replayText(rep, logs))
	return errors.Join(err, printErr)
}
