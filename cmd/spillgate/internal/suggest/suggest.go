package suggest

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/rulefile"
)

// Options are the parameters of Run.
type Options struct {
	replay.Options
	Keep   float64       // the share of clients to leave untouched, in percent: above 0, at most 100
	Within time.Duration // of the limits that do so, suggest the one that admits least within this time
}

// A Report says which limits leave which share of clients untouched.
type Report struct {
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Requests   int       `json:"requests"` // requests that the rule applies to
	Clients    int       `json:"clients"`
	Others     int       `json:"other_requests,omitempty"` // requests that the rule does not apply to
	Skipped    int       `json:"skipped,omitempty"`        // ignored, because of their status
	Keyless    int       `json:"without_key,omitempty"`
	Error      string    `json:"error,omitempty"` // why the last of them has no key
	Incomplete bool      `json:"incomplete,omitempty"`

	Keep    float64 `json:"keep_percent"`
	MayHit  int     `json:"may_hit"`         // how many clients of the log a limit may hit, so that the share also holds for other clients like them
	TooFew  int     `json:"needs,omitempty"` // if the log has too few clients for that: how many it takes; limits then hit the clients beyond a gap
	Rates   []Rate  `json:"rates"`
	Chosen  *Choice `json:"suggested"` // nil if there are no clients
	Checked *Check  `json:"check"`     // nil if the log has no second half
}

// A Rate is a rate with the bursts that clients need.
type Rate struct {
	Rate     string      `json:"rate"`
	Burst    int         `json:"burst"` // the smallest burst, rounded up, that hits at most MayHit clients; or a burst in the gap
	Hit      int         `json:"clients_hit"`
	HitAt    map[int]int `json:"clients_hit_by_burst"`
	Suitable bool        `json:"suitable"` // the log is long enough for this rate

	limit core.Limit
	peaks *peaks
	gap   Gap
}

// HitBy returns how many clients a burst at this rate hits.
func (r *Rate) HitBy(burst int) int {
	if n, known := r.HitAt[burst]; known {
		return n
	}
	return r.peaks.above(burst)
}

// A Choice is the suggested limit.
type Choice struct {
	Limit     string   `json:"limit"`
	Rate      string   `json:"rate"`
	Burst     int      `json:"burst"`
	Hit       int      `json:"clients_hit"`
	Gap       *Gap     `json:"gap,omitempty"`             // the gap that the limit is in; nil if the share decided, or if there is no gap
	Most      []Client `json:"most"`                      // the clients that need the largest bursts
	EvenBurst int      `json:"burst_if_spread,omitempty"` // the burst if the requests of each second were spread evenly over it; 0 if the log has fractions of seconds
}

// A Client is hit by a limit if it needs a larger burst.
type Client struct {
	Key      string `json:"key"`
	Requests int    `json:"requests"`
	Burst    int    `json:"burst"` // burst that it needs
}

// Run learns a limit from the requests in logs that the first rule of a file applies to, by the rule's key. If ctx
// ends, it returns the report so far.
func Run(ctx context.Context, f *rulefile.File, sources []replay.Source, o Options) (*Report, error) {
	l, err := newLearner(f, o)
	if err != nil {
		return nil, err
	}
	next, err := replay.Order(sources, o.AtStart)
	if err == nil {
		l.report.Incomplete, err = o.Each(ctx, next, l.add)
	}
	rep := &l.report
	if rep.Keep = o.Keep; rep.Requests > 0 {
		l.conclude()
	}
	return rep, err
}

// conclude computes the report from what was learned.
func (l *learner) conclude() {
	rep := &l.report
	rep.Clients = len(l.clients)
	rep.MayHit, rep.TooFew = mayHit(rep.Clients, rep.Keep)
	whole, first, second := l.drain(l.cut())
	span := rep.To.Sub(rep.From)
	for i, limit := range rates {
		r := Rate{Rate: rateText(limit), limit: limit, peaks: whole[i]}
		r.Burst, r.gap = rep.learn(r.peaks)
		r.Hit, r.Suitable = r.HitBy(r.Burst), suits(limit, r.Burst, span)
		rep.Rates = append(rep.Rates, r)
	}
	i := choose(rep.Rates, l.options.Within)
	burst := rep.Rates[i].Burst
	if first[i].clients > 0 && second[i].clients > 0 {
		rep.Checked = rep.check(&rep.Rates[i], first[i], second[i])
		if rep.TooFew == 0 {
			burst = max(burst, rep.Checked.Burst)
		}
	}
	rep.Chosen = l.choice(&rep.Rates[i], burst)
	for i := range rep.Rates {
		rep.Rates[i].HitAt = make(map[int]int)
		for _, b := range Bursts(rep) {
			rep.Rates[i].HitAt[b] = rep.Rates[i].HitBy(b)
		}
	}
}

// learn returns the burst to suggest for clients, rounded up: the smallest burst that hits no more of them than the
// share permits. If the log has too few clients for the share, it is a burst in their gap, or one that hits nobody.
func (rep *Report) learn(p *peaks) (burst int, g Gap) {
	if rep.TooFew > 0 {
		if g = p.gap(); g.Clients > 0 {
			return roundUp(g.burst()), g
		}
	}
	may, _ := mayHit(p.clients, rep.Keep)
	return roundUp(p.least(may)), g
}
