package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/internal/nearest"
	"github.com/spillgate/spillgate/rulefile"
)

// run executes the command line args until it has finished or ctx ends, and returns the exit code. It writes an error
// as one line to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errReported):
		return 1
	}
	var mistakes rulefile.Mistakes
	if errors.As(err, &mistakes) {
		_, _ = fmt.Fprintln(stderr, mistakes)
		return 1
	}
	complain(stderr, "%s", oneLine(err))
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// complain writes one line to stderr.
func complain(stderr io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(stderr, "spillgate: "+format+"\n", args...)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "spillgate",
		Short:             "Try rate limits for Go HTTP servers from the command line",
		Example:           "  spillgate demo   # then open http://127.0.0.1:8080/",
		Version:           version(),
		Args:              noArguments,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(badFlag)
	root.AddCommand(newDemo(), newCheck(), newExplain(), newSchema(), newReplay(), newSuggest())
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error { // cobra shows the help of root for any word
		if c, rest, _ := root.Find(args); c == root {
			return noArguments(root, rest)
		}
		return nil
	}
	return root
}

// A usageError is a mistake in the command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func misuse(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasParent():
		return misuse("%s takes no arguments, got %q", cmd.Name(), args[0])
	default:
		return misuse("there is no command %q; %s", args[0], meant(cmd, args[0]))
	}
}

// meant returns a hint for an unknown command: the command of root with a similar name, or how to list the commands.
func meant(root *cobra.Command, name string) string {
	var known []string
	for _, c := range root.Commands() {
		known = append(known, c.Name())
	}
	if word := nearest.Word(name, known); word != "" {
		return "did you mean " + word + "?"
	}
	return "see spillgate --help"
}

// badFlag returns the error for a mistake in a flag, with a hint for an unknown flag.
func badFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if errors.As(err, &unknown) {
		if word := nearest.Word(unknown.GetSpecifiedName(), known); word != "" {
			return misuse("%v; did you mean --%s?", err, word)
		}
	}
	return usageError{err.Error()}
}

// wantArguments returns a check for exactly these arguments.
func wantArguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return misuse("%s wants %s, got %s", cmd.Name(), strings.Join(names, " "), counted(len(args), "argument"))
	}
}

// oneLine returns the text of err without line breaks and without the prefixes that complain adds.
func oneLine(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "spillgate: "), "invalid: ")
	return strings.ReplaceAll(text, "\n", "; ")
}

// version returns the version of the module that the command was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
