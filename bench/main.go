// Command bench measures Spillgate beside the libraries that a user would pick instead, all in one run: the contestants
// of a row take turns, and what counts is the ratio of their medians. It needs redis-server for the rows about Redis,
// takes some five minutes, and writes RESULTS.md.
//
//	go run .                            # everything
//	go run . -rows 'hot key' -rounds 15 # the rows whose name matches, more often
//	go run . -rows 'hot key' -cpuprofile hot.prof && go tool pprof -top -focus MemoryStore hot.prof
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench does what args ask, prints the tables to out and what goes on to progress.
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
	outcomes, err := e.all(f.rows, out)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, summary(outcomes))
	if err != nil || f.results == "" || f.rows.String() != "" || f.quick {
		return err
	}
	return os.WriteFile(f.results, []byte(report(e, outcomes)), 0o644)
}

// flags are what the command line says.
type flags struct {
	rows    *regexp.Regexp
	rounds  int
	quick   bool
	results string
	profile string
}

func parse(args []string, progress io.Writer) (f flags, err error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(progress)
	rows := set.String("rows", "", "run only the rows whose name matches this regular `expression`")
	set.IntVar(&f.rounds, "rounds", 7, "how often each contestant of a row has its turn")
	set.BoolVar(&f.quick, "quick", false, "measure next to nothing: just see that everything works")
	set.StringVar(&f.results, "o", "RESULTS.md", "write the results to this `file`, if all rows run; empty: nowhere")
	set.StringVar(&f.profile, "cpuprofile", "", "write a CPU profile to this `file`")
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

// all runs the rows whose name matches, and prints each as soon as it is done.
func (e *env) all(match *regexp.Regexp, out io.Writer) (outcomes []*outcome, err error) {
	for _, rows := range [][]*row{memoryRows(), heapRows(), growthRows(), httpRows(), frameworkRows(), redisRows()} {
		for _, r := range rows {
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
			outcomes = append(outcomes, o)
		}
	}
	if len(outcomes) == 0 {
		return nil, fmt.Errorf("no row matches %q", match)
	}
	return outcomes, nil
}
