// Command bench compares Spillgate with other rate limiting libraries in one run: the contestants of a row take turns, and
// what counts is the ratio of their medians. In memory, each has a process of its own. The bench needs redis-server for the
// rows about Redis, and valgrind to count instructions, which it leaves out otherwise. It takes some ten minutes, and writes
// two files: RESULTS.md, for users, and BOUNDS.md, which says for developers what each row must not exceed.
//
//	go run .                            # everything
//	go run . -rows 'hot key' -rounds 15 # the rows whose name matches, more often
//	go run . -busy -rows net/http       # by processor time, where other programs keep the machine busy
//	go run . -rows 'Take, one hot key' -cpuprofile hot.prof && go tool pprof -top -focus Limiter hot.prof
//	go run . -against v0.1.0            # in turns with an earlier commit
//
// # An earlier commit
//
// With -against, the bench builds itself a second time, with the library at a commit, and the two programs take turns.
// It compares the entries of Spillgate in the rows that have a bound for this, or in those that -rows matches. Both
// programs have the present sources of the bench. Where the commit lacks what they call, move that into a file with the
// build constraint "!before" and write one with the constraint "before" beside it.
//
// # Shortcuts
//
// A shortcut that users can switch off has a row that shows what it gains: an entry with the shortcut, an entry without it,
// and a bound of at least 1.25 times the entry without it. "Redis, a denied key with the deny cache" is such a row. To see
// what any other shortcut gains, delete it and run -against HEAD.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if ran, err := asTask(ctx, os.Args[1:], os.Stdin, os.Stdout); ran {
		if err != nil {
			os.Exit(1) // the process that started this one reports it
		}
		return
	}
	if err := bench(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench runs the command line args. It prints the tables to out, and the names of finished rows to progress.
func bench(ctx context.Context, args []string, out, progress io.Writer) error {
	f, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if f.profile != "" {
		stop, err := profile(f.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	e := newEnv(ctx, f.rounds, f.quick, progress)
	defer e.close()
	if f.profile != "" {
		e.single, e.valgrind = true, ""
	}
	if f.busy {
		e.clock, e.busy = processor(), true
	}
	if f.against != "" {
		return e.against(f.against, f.rows, out)
	}
	chapters, err := e.all(f.rows, out)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, boundsTable(chapters))
	if err != nil || f.dir == "" || f.rows.String() != "" || f.quick {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(f.dir, "RESULTS.md"), []byte(results(e, chapters)), 0o644),
		os.WriteFile(filepath.Join(f.dir, "BOUNDS.md"), []byte(bounds(e, chapters)), 0o644))
}

// flags are the options of the command line.
type flags struct {
	rows    *regexp.Regexp
	rounds  int
	quick   bool
	busy    bool
	dir     string
	against string
	profile string
}

func parse(args []string, progress io.Writer) (f flags, err error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(progress)
	rows := set.String("rows", "", "run only the rows whose name matches this regular `expression`")
	set.IntVar(&f.rounds, "rounds", 9, "how often each contestant of a row has its turn")
	set.BoolVar(&f.quick, "quick", false, "measure next to nothing: just see that everything works")
	set.BoolVar(&f.busy, "busy", false, "count processor time, for a machine that does other things; not for rows in parallel or in Redis")
	set.StringVar(&f.dir, "o", ".", "write RESULTS.md and BOUNDS.md to this `directory`, if all rows run; empty: nowhere")
	set.StringVar(&f.against, "against", "", "run the rows in turns with the library at an earlier `commit`, and write no files; without -rows, those with a bound for that")
	set.StringVar(&f.profile, "cpuprofile", "", "run all rows in this process, and write its CPU profile to this `file`")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	f.rows, err = regexp.Compile(*rows)
	return f, err
}

// profile writes a CPU profile to a file until stop is called.
func profile(name string) (stop func(), err error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

// A chapter is a section with the outcomes of the rows that ran.
type chapter struct {
	section
	outcomes []*outcome
}

// all runs the rows whose name matches, and prints each as soon as it is done. It returns the sections that have any.
func (e *env) all(match *regexp.Regexp, out io.Writer) (chapters []chapter, err error) {
	for _, s := range sections() {
		c := chapter{section: s}
		for _, r := range s.rows {
			if !match.MatchString(r.name) {
				continue
			}
			o, err := e.run(r)
			if err != nil {
				return nil, err
			}
			if _, err := io.WriteString(out, o.table()+"\n"); err != nil {
				return nil, err
			}
			c.outcomes = append(c.outcomes, o)
		}
		if len(c.outcomes) > 0 {
			chapters = append(chapters, c)
		}
	}
	if len(chapters) == 0 {
		return nil, fmt.Errorf("no row matches %q", match)
	}
	return chapters, nil
}
