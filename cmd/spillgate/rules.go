package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/rulefile"
)

// errReported ends the command with exit code 1 after it has printed the error itself.
var errReported = errors.New("reported")

func newCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a rules file and show every mistake at its line and column",
		Long: "check reads a rules file as the application does and shows every mistake at once. It assumes that the application has\n" +
			"the functions named under funcs. Warnings are no mistakes. Exit code: 0 if the file is good, 1 if it has mistakes, 2 if it\n" +
			"cannot be read.",
		Example: "  spillgate check spillgate.yaml",
		Args:    wantArguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := readRules(args[0])
			var mistakes rulefile.Mistakes
			bad := errors.As(err, &mistakes)
			switch {
			case err != nil && !bad:
				return err
			case asJSON:
				err = printJSON(cmd.OutOrStdout(), checked(file, mistakes))
			case bad:
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%v\n%s\n", mistakes, counted(mistakes.Count(), "mistake"))
			default:
				for _, w := range file.Warnings {
					_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", w)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, no mistakes\n", args[0], counted(len(file.Rules), "rule"))
			}
			if bad {
				err = errReported
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of rules files, for editors",
		Example: "  spillgate schema > spillgate.schema.json\n  # and in the rules file: # yaml-language-server: $schema=spillgate.schema.json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(rulefile.Schema())
			return err
		},
	}
}

// readRules checks a rules file. A file that cannot be read is a mistake in the command line.
func readRules(path string) (*rulefile.File, error) {
	src, err := rulefile.Read(path)
	if err != nil {
		return nil, misuse("%s", oneLine(err))
	}
	return rulefile.Check(path, src)
}

// A verdict is the JSON output of check.
type verdict struct {
	Rules    int       `json:"rules"`
	Mistakes []mistake `json:"mistakes"`
	Warnings []mistake `json:"warnings,omitempty"`
}

type mistake struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

func checked(file *rulefile.File, mistakes rulefile.Mistakes) verdict {
	v := verdict{Mistakes: printed(mistakes)}
	if file != nil {
		v.Rules, v.Warnings = len(file.Rules), printed(file.Warnings)
	}
	return v
}

func printed(mistakes []*rulefile.Mistake) []mistake {
	list := []mistake{}
	for _, m := range mistakes {
		list = append(list, mistake{m.File, m.Line, m.Column, m.Text})
	}
	return list
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// counted returns "1 rule" or "2 rules".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
