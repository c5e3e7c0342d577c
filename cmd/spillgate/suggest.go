package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/suggest"
	"github.com/spillgate/spillgate/rulefile"
)

// suggestFlags are the flags of the command suggest.
type suggestFlags struct {
	logFlags
	key, name string
	match     []string
	keep      float64
	within    time.Duration
}

func newSuggest() *cobra.Command {
	var o suggestFlags
	cmd := &cobra.Command{
		Use:   "suggest LOG...",
		Short: "Suggest a limit that leaves most clients of access logs untouched",
		Long: "suggest reads access logs as replay does and finds the burst that clients need at each rate. It prints how many clients\n" +
			"each limit would hit, checks a limit learned from the first half of the logs on the second half, and prints a rule that\n" +
			"leaves the share --keep of clients untouched. If the logs have too few clients for that, the rule denies only the few\n" +
			"clients that need far more than all others. If the output is not a terminal, everything but the rule is a comment, so\n" +
			"the output is a rules file.\n" +
			"Formats: " + strings.Join(accesslog.Formats, ", ") + ". After Ctrl-C, it prints the report so far.",
		Example: "  spillgate suggest /var/log/nginx/access.log*\n" +
			"  spillgate suggest --match 'POST /login' --name login --keep 99 access.log > spillgate.yaml\n" +
			"  spillgate suggest --key 'apikey(X-Api-Key)' --field header:X-Api-Key=key --json app.jsonl",
		Args: wantLogs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	cmd.Flags().AddFlagSet(o.set())
	return cmd
}

func (o *suggestFlags) set() *pflag.FlagSet {
	flags := o.logFlags.set("suggest")
	flags.StringVar(&o.key, "key", "ip", "what identifies a client: a `key` as in rules files")
	flags.StringArrayVar(&o.match, "match", nil, "look only at requests that match this `pattern`, such as 'POST /login'; repeatable")
	flags.StringVar(&o.name, "name", "suggested", "`name` of the rule")
	flags.Float64Var(&o.keep, "keep", 99.9, "share of clients to leave untouched, in `percent`")
	flags.DurationVar(&o.within, "within", time.Minute, "of the limits that do so, suggest the one that admits least within this `time`")
	return flags
}

// rule returns the rule with some limits, in YAML.
func (o *suggestFlags) rule(limits string) string {
	lines := []string{"rules:", "  - name: " + yamlText(o.name), "    key: " + yamlText(o.key), "    limits: " + yamlText(limits)}
	if len(o.match) > 0 {
		quoted := make([]string, len(o.match))
		for i, m := range o.match {
			quoted[i] = yamlQuoted(m)
		}
		lines = append(lines[:2], append([]string{"    match: [" + strings.Join(quoted, ", ") + "]"}, lines[2:]...)...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// yamlText returns s as a plain YAML scalar if every reader reads that as a string, and quoted otherwise.
func yamlText(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/()=;., "
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n": // YAML 1.1 or 1.2 reads no string
		return yamlQuoted(s)
	}
	if strings.Trim(s, plain) != "" || s != strings.TrimSpace(s) || strings.ContainsAny(s[:min(1, len(s))], "-,. 0123456789") && !strings.Contains(s, "/") {
		return yamlQuoted(s)
	}
	return s
}

func yamlQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// file reads the rule that the flags describe.
func (o *suggestFlags) file() (*rulefile.File, error) {
	if !(o.keep > 0 && o.keep <= 100) {
		return nil, misuse("--keep is %v, want a share above 0, at most 100", o.keep)
	}
	if o.within <= 0 {
		return nil, misuse("--within is %v, want a time above 0", o.within)
	}
	for _, text := range append([]string{o.key, o.name}, o.match...) {
		if strings.ContainsAny(text, "\r\n") {
			return nil, misuse("--key, --match or --name: %q has more than one line", text)
		}
	}
	f, err := rulefile.Offline("flags", []byte(o.rule("1/s")))
	var mistakes rulefile.Mistakes
	if errors.As(err, &mistakes) {
		return nil, misuse("--key, --match or --name: %s", mistakes[0].Text)
	}
	return f, err
}

func (o *suggestFlags) run(cmd *cobra.Command, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	file, err := o.file()
	if err != nil {
		return err
	}
	logs, err := o.open(cmd, args, file)
	defer logs.close()
	if err != nil {
		return err
	}
	bar := newProgress(cmd.ErrOrStderr(), logs)
	options := suggest.Options{Options: o.options(logs, bar), Keep: o.keep, Within: o.within}
	if lacks := replay.Lacking(file.Needs(0), options.Knows); lacks != "" {
		return fmt.Errorf("the logs lack what the rule needs: %s", lacks)
	}
	rep, err := suggest.Run(cmd.Context(), file, logs.sources(), options)
	bar.clear()
	if rep == nil {
		return err
	}
	return errors.Join(err, o.print(cmd.OutOrStdout(), rep, logs.reports()))
}

// print prints a report. If there are no requests, there is no rule, and print returns an error, because the output may
// go to a file.
func (o *suggestFlags) print(w io.Writer, rep *suggest.Report, logs []logReport) error {
	rule := ""
	if rep.Chosen != nil {
		rule = o.rule(rep.Chosen.Limit)
	}
	var err error
	if o.json {
		err = printJSON(w, struct {
			*suggest.Report
			Rule string      `json:"rule"`
			Logs []logReport `json:"logs"`
		}{rep, rule, logs})
	} else {
		_, err = io.WriteString(w, suggestText(rep, rule, logs, screenOf(w)))
	}
	if rep.Chosen == nil {
		err = errors.Join(err, errors.New("nothing to suggest: no request of the logs counts"))
	}
	return err
}
