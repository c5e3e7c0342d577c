package replay

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/rulefile"
)

// A Report has the decisions that rules would have made about the requests in logs.
type Report struct {
	From       time.Time         `json:"from"`
	To         time.Time         `json:"to"`
	Requests   int               `json:"requests"`
	Skipped    int               `json:"skipped,omitempty"` // not decided, because of their status
	Denied     int               `json:"denied"`
	Would      int               `json:"would_deny"`                // admitted, but a dry run would deny them
	AtLeast    *int              `json:"denied_at_least,omitempty"` // see evenPlayer; nil if the log has fractions of seconds
	Failed     int               `json:"failed,omitempty"`          // could not be decided
	Error      string            `json:"error,omitempty"`           // why the last of them could not be decided
	Incomplete bool              `json:"incomplete,omitempty"`      // the replay was interrupted
	Rules      []RuleReport      `json:"rules"`
	LeftOut    map[string]string `json:"left_out,omitempty"` // rules, or skip.preflight, that need something the logs lack
	Routes     []RouteReport     `json:"routes"`             // the routes that were denied most
	Timeline   Timeline          `json:"timeline"`
}

// A RuleReport counts the decisions of a rule.
type RuleReport struct {
	Name      string         `json:"name"`
	Limits    []string       `json:"limits"`
	DryRun    bool           `json:"dry_run,omitempty"`
	Asked     int            `json:"asked"`
	Denied    int            `json:"denied"` // by this rule itself
	Keys      int            `json:"keys"`
	KeysHit   int            `json:"keys_hit"`
	HitShares []int          `json:"hit_shares"` // clients by the share of their requests that was denied: up to 1, 5, 10, 25, 50, 75, 100 percent
	Hit       []ClientReport `json:"hit"`        // the clients that were denied most
	Waits     *WaitReport    `json:"waits,omitempty"`
}

// A ClientReport counts the requests of a client.
type ClientReport struct {
	Key    string `json:"key"`
	Asked  int    `json:"asked"`
	Denied int    `json:"denied"`
}

// A RouteReport counts the denied requests of a method and a path, whose segments with numbers are {}.
type RouteReport struct {
	Route  string `json:"route"`
	Denied int    `json:"denied"`
}

// shown is how many clients and routes a report has at most.
const shown = 20

// Run decides the entries of logs with the rules of a file. If ctx ends, it returns the report so far.
func Run(ctx context.Context, f *rulefile.File, sources []Source, o Options) (*Report, error) {
	p, lacking, err := newPlayer(f, o.Knows)
	if err != nil {
		return nil, err
	}
	even, err := newEvenPlayer(p)
	if err != nil {
		return nil, err
	}
	r := &runner{Options: o, player: p, even: even, report: &Report{LeftOut: lacking}, routes: make(map[string]int)}
	next, err := Order(sources, o.AtStart)
	if err == nil {
		r.report.Incomplete, err = r.Each(ctx, next, r.decide)
	}
	return r.finish(), err
}

type runner struct {
	Options
	player *player
	even   *evenPlayer
	report *Report
	routes map[string]int
}

// Each calls f with each entry that next returns, and o.Progress from time to time. It stops at an error of f or next.
// If ctx ends, it reports incomplete.
func (o *Options) Each(ctx context.Context, next func() (*accesslog.Entry, error), f func(*accesslog.Entry) error) (incomplete bool, err error) {
	const often = 1 << 14
	for read := 1; ; read++ {
		e, err := next()
		if e == nil || err != nil {
			return ctx.Err() != nil, err
		}
		if err := f(e); err != nil {
			return false, err
		}
		if read%often != 0 {
			continue
		}
		if o.Progress != nil {
			o.Progress(read)
		}
		if ctx.Err() != nil {
			return true, nil
		}
	}
}

func (r *runner) decide(e *accesslog.Entry) error {
	if r.SkipStatus[e.Status] {
		r.report.Skipped++
		return nil
	}
	at := InstantOf(e, r.AtStart)
	if r.report.Requests == 0 {
		r.report.From, r.report.To = at, at
	}
	if at.After(r.report.To) {
		r.report.To = at
	}
	r.report.Requests++
	r.player.decide(e, at)
	r.even.add(e, at, r.player.asks)
	r.report.Timeline.add(r.player.now, at, r.player.denied, r.player.would)
	if r.player.would && !r.player.denied {
		r.report.Would++
	}
	if r.player.denied {
		r.report.Denied++
		r.countRoute(e)
	}
	return nil
}

// countRoute counts a denied request by its route. Beyond 10,000 routes, new ones count as "others".
func (r *runner) countRoute(e *accesslog.Entry) {
	route := e.Method + " " + withoutNumbers(r.player.requests.URL.Path)
	if _, known := r.routes[route]; !known && len(r.routes) >= 10_000 {
		route = "others"
	}
	r.routes[route]++
}

// withoutNumbers replaces segments that begin with a digit or are long by {}.
func withoutNumbers(path string) string {
	if !strings.ContainsAny(path, "0123456789") && len(path) < 40 {
		return strings.Clone(path)
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s != "" && (s[0] >= '0' && s[0] <= '9' || len(s) > 40) {
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}

func (r *runner) finish() *Report {
	rep := r.report
	if atLeast, ok := r.even.finish(); ok {
		atLeast = min(atLeast, rep.Denied)
		rep.AtLeast = &atLeast
	}
	if rep.Failed = r.player.errs; rep.Failed > 0 {
		rep.Error = r.player.lastErr.Error()
	}
	rep.Rules = []RuleReport{}
	for _, t := range r.player.rules {
		rep.Rules = append(rep.Rules, t.report())
	}
	rep.Routes = []RouteReport{}
	for route, n := range r.routes {
		rep.Routes = append(rep.Routes, RouteReport{route, n})
	}
	slices.SortFunc(rep.Routes, func(a, b RouteReport) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Route, b.Route))
	})
	rep.Routes = rep.Routes[:min(len(rep.Routes), shown)]
	return rep
}

func (t *tally) report() RuleReport {
	r := RuleReport{Name: t.rule.Name, DryRun: t.rule.DryRun, Asked: t.asked, Denied: t.denied, Keys: len(t.clients), KeysHit: len(t.names), HitShares: t.hitShares(), Hit: []ClientReport{}, Waits: t.waits.report()}
	for _, l := range t.rule.Limits {
		r.Limits = append(r.Limits, l.String())
	}
	for hash := range maps.Keys(t.names) {
		c := t.clients[hash]
		r.Hit = append(r.Hit, ClientReport{t.names[hash], int(c.asked), int(c.denied)})
	}
	slices.SortFunc(r.Hit, func(a, b ClientReport) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key))
	})
	r.Hit = r.Hit[:min(len(r.Hit), shown)]
	return r
}
