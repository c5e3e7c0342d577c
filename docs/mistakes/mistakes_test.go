// Package mistakes checks that the error of a wrong configuration says where it is wrong, what is wrong, and what would be right.
package mistakes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/keyfunc"
)

// A mistake is a wrong configuration and what its error must say.
type mistake struct {
	why   string
	make  func() error
	where string // the rule, option, field, word or line
	what  string // what is wrong, or the wrong value
	right string // what would be right
}

func TestEveryMistakeSaysWhereWhatAndHowToFixIt(t *testing.T) {
	all := slices.Concat(ofLimits, ofRules, ofRoutes, ofOptions, ofWords, ofKeys, ofFiles, ofCalls)
	seen := make(map[string]bool)
	for _, m := range all {
		t.Run(m.why, func(t *testing.T) {
			err := m.make()
			if err == nil || !errors.Is(err, core.ErrInvalid) && !errors.Is(err, core.ErrNoKey) {
				t.Fatalf("got %v, want an error that wraps ErrInvalid", err)
			}
			for _, want := range []string{m.where, m.what, m.right} {
				expect.True(t, want != "" && strings.Contains(err.Error(), want), "got %q, want it to say %q", err, want)
			}
			expect.True(t, !seen[err.Error()], "another configuration has the same error: %v", err)
			seen[err.Error()] = true
		})
	}
	expect.AtLeast(t, len(all), 60, "wrong configurations")
}

// newRule returns the error of a limiter with a good rule and a rule named login, to which change has added a mistake.
func newRule(change func(*core.Rule)) error {
	login := core.PerMinute(5).By(keyfunc.RemoteIP)
	login.Name = "login"
	change(&login)
	_, err := core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP), login})
	return err
}

// newLimit returns a maker of the error of a rule whose second limit is l.
func newLimit(l core.Limit) func() error {
	return func() error { return newRule(func(r *core.Rule) { r.Limits = []core.Limit{core.PerSecond(1), l} }) }
}

func options(opts ...core.Option) func() error {
	return func() error {
		_, err := core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}, opts...)
		return err
	}
}

func panicOf(f func()) func() error {
	return func() (err error) {
		defer func() {
			v := recover()
			if err, _ = v.(error); err == nil {
				err = fmt.Errorf("%v%w", v, core.ErrInvalid)
			}
		}()
		f()
		return nil
	}
}
