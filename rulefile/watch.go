package rulefile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Options change how Watch works.
type Options struct {
	Interval time.Duration // between two reads of the file, at least 1ms; 0 means 1s
	Log      *slog.Logger  // nil means slog.Default()

	// Also are rules of the program that apply together with the rules of the file: each load swaps both as one set.
	// Pass the same rules to core.New, after the file's rules. If a rule of the file has the name of a rule in Also, or
	// a pattern that conflicts with one of its patterns, that is a mistake in the file. SPILLGATE_DRY_RUN does not
	// change the rules in Also.
	Also []core.Rule

	// Report, if not nil, is called for each load with the path of the file, the hash of the active contents and, if
	// the load failed, the error. It must not block.
	Report func(path, hash string, err error)
}

// Watch keeps the rules of a limiter equal to the rules of the file until ctx is done, and then returns nil. It loads
// the file when it starts and whenever the contents change, as Load does, and replaces all rules at once with SetRules.
//
// Watch loads new contents only when it has read them twice in a row, an interval apart (at its start, a tenth of an
// interval), so it does not load a half-written file. It polls, so it does not matter how the file is replaced: by
// renaming, by changing a symbolic link, as in Kubernetes, by truncating and writing, or by deleting and creating it.
// The new contents take effect after two intervals.
//
// If the file is missing or has mistakes, the active rules stay, and Watch logs the mistakes once. It also logs what a
// load changes: "api: 10/1s → 20/1s".
//
// It returns an error only for invalid arguments, such as rules in Options.Also that core.New would not accept.
func Watch(ctx context.Context, path string, l *core.Limiter, f Funcs, o Options) error {
	if l == nil || o.Interval != 0 && o.Interval < time.Millisecond {
		return fmt.Errorf("spillgate: %w: Watch needs a limiter and an interval of 0 or at least 1ms, got %v", core.ErrInvalid, o.Interval)
	}
	var err error
	if o.Also, err = checked(o.Also); err != nil {
		return err
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	w := &watcher{Options: o, path: path, limiter: l, funcs: f}
	w.look()
	timer := time.NewTimer(o.Interval / 10)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			w.look()
			timer.Reset(o.Interval)
		}
	}
}

type watcher struct {
	Options
	path    string
	limiter *core.Limiter
	funcs   Funcs

	seen   string // hash of the contents at the last read, or the text of the error
	judged string // seen at the last load, whether it succeeded or not
	active *File  // nil before the first load
}

// look reads the file. It loads contents that it has read twice in a row and has not loaded yet.
func (w *watcher) look() {
	src, err := Read(w.path)
	now := hashOf(src)
	if err != nil {
		now = err.Error()
	}
	before := w.seen
	if w.seen = now; now != before || now == w.judged {
		return
	}
	w.judged = now
	if err == nil {
		err = w.load(src)
	}
	if err != nil {
		w.reject(err)
	}
}

func (w *watcher) load(src []byte) error {
	file, err := parse(w.path, src, resolver{funcs: w.funcs, also: w.Also})
	if err != nil {
		return err
	}
	file.applyDryRun(os.Getenv(dryRunVariable), w.Log)
	rules := slices.Concat(file.Rules, w.Also)
	changes := w.changes(file, rules)
	if err := w.limiter.SetRules(rules); err != nil {
		return err
	}
	w.active = file
	w.Log.Info("spillgate: rules loaded", "file", w.path, "hash", file.Hash, "changes", strings.Join(changes, "; "))
	w.report(nil)
	return nil
}

// reject logs and reports why a load failed. If the file has mistakes, it logs one line for each. The active rules
// stay.
func (w *watcher) reject(err error) {
	const message = "spillgate: rules not loaded; the active rules stay"
	var mistakes Mistakes
	if errors.As(err, &mistakes) {
		for _, m := range mistakes {
			w.Log.Error("spillgate: mistake in rules", "at", fmt.Sprintf("%s:%d:%d", m.File, m.Line, m.Column), "text", m.Text)
		}
		w.Log.Error(message, "file", w.path, "mistakes", mistakes.Count())
	} else {
		w.Log.Error(message, "file", w.path, "err", err)
	}
	w.report(err)
}

func (w *watcher) report(err error) {
	if w.Report == nil {
		return
	}
	hash := ""
	if w.active != nil {
		hash = w.active.Hash
	}
	w.Report(w.path, hash, err)
}
