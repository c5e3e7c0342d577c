package rulefile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/rulefile"
)

// fromCode are rules of a program: one for jobs, one for requests.
func fromCode() []core.Rule {
	return []core.Rule{
		{Name: "jobs", Limits: []core.Limit{core.PerHour(3)}, Routes: []string{"/jobs/{id}"}},
		{Name: "files", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerHour(7)}, Routes: []string{"/files/"}},
	}
}

func (w *watched) names() string {
	var names []string
	for _, r := range w.limiter.Rules() {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func TestRulesOfTheProgramStayWhenTheFileChanges(t *testing.T) {
	watch(t, func(w *watched) {
		take := func() (remaining int) {
			d, err := w.limiter.Take(t.Context(), core.Claim{Rule: "jobs", Key: "k"})
			w.do(err)
			return d.Results[0].Remaining
		}
		if left := take(); left != 2 {
			t.Errorf("%d left, want 2", left)
		}
		w.write(w.path, rate(20)+"  - {name: n, key: ip, limits: 1/s}\n")
		w.wait(3 * time.Second)
		if names := w.names(); names != "api n jobs files" {
			t.Errorf("got rules %s\n%s", names, &w.log)
		}
		if left := take(); left != 1 {
			t.Errorf("%d left, want 1: what was used stays used", left)
		}
		if want := `changes="api: 10/1h → 20/1h; n: new, 1/1s"`; !strings.Contains(w.log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, &w.log)
		}
		w.write(w.path, rate(30))
		w.wait(3 * time.Second)
		if want := `changes="api: 20/1h → 30/1h; n: removed"`; w.names() != "api jobs files" || !strings.Contains(w.log.String(), want) {
			t.Errorf("got rules %s, and the log does not say %s:\n%s", w.names(), want, &w.log)
		}
	}, fromCode()...)
}

func TestConflictsWithTheProgramsRulesAreMistakes(t *testing.T) {
	for why, row := range map[string]struct{ rule, at, text string }{
		"a name":    {"  - {name: jobs, key: ip, limits: 1/s}\n", "5:12", "there is another rule named jobs, in Options.Also of the program"},
		"a pattern": {"  - {name: n, key: ip, limits: 1/s, match: '/{kind}/new'}\n", "5:44", `Pattern \"/files/\" belongs to rule files in Options.Also.`},
	} {
		t.Run(why, func(t *testing.T) {
			watch(t, func(w *watched) {
				w.write(w.path, rate(20)+row.rule)
				w.wait(3 * time.Second)
				w.wantRate(10, "with a mistake")
				if log := w.log.String(); !strings.Contains(log, "spillgate.yaml:"+row.at) || !strings.Contains(log, row.text) || w.names() != "api jobs files" {
					t.Errorf("rules %s; want %s, %s in the log:\n%s", w.names(), row.at, row.text, log)
				}
			}, fromCode()...)
		})
	}
}

func TestWatchReportsMistakesInRulesOfTheProgram(t *testing.T) {
	l := core.Must(core.New(mustParse(t, rate(1)).Rules))
	err := rulefile.Watch(t.Context(), "f", l, program, rulefile.Options{Also: []core.Rule{{Name: "jobs"}, {Name: "jobs", Limits: core.MustParseLimits("1/s")}}})
	for _, want := range []string{"Options.Also", `rule "jobs": a rule needs at least one limit`, `rule "jobs": name is not unique`} {
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}
