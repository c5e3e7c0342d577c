package stdlib

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/usage"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// NewUsage returns a handler that tells clients what they have left under the named rules of l, or under all rules if
// none is named, as GitHub's /rate_limit does:
//
//	{"resources": {"plan": {"limit": 10000, "used": 1730, "remaining": 8270, "reset": 1796083200,
//	  "limits": [{"limit": 10000, "per": "month", "used": 1730, "remaining": 8270, "reset": 1796083200}]}}}
//
// The fields of a rule come from its tightest limit. "reset" is in seconds since 1970: the time when the whole capacity
// is available again or, if nothing remains, when one more request fits. It is the current time if nothing is used.
// "per" is a calendar unit, a period such as "15m", or "at once". The handler charges nothing (see core.Limiter.Usage)
// and leaves out dry runs.
//
// Name the rules that customers may see. Otherwise they also see how many guesses the rule of a login has left, and
// a rule by address answers strangers. Mount the handler behind your authentication: a key that nobody has verified,
// such as the name in keyfunc.BasicUser, shows the counts of that name to everybody who claims it.
//
// A request for which none of the rules has a key gets a 401, and a request with a bad key a 400. While the store is
// down, all others get a 503. A name that is no rule of l is logged, and requests get a 500. Do not mount l in front of
// this handler, or its requests count. NewUsage panics if l is nil.
func NewUsage(l *core.Limiter, rules ...string) http.Handler {
	if l == nil {
		panic("spillgate: stdlib.NewUsage: the limiter is nil")
	}
	rules = slices.Clone(rules)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := l.Usage(r.WithContext(usage.WithRules(r.Context(), rules)))
		switch {
		case err == nil && d.Degraded != nil:
			err = core.ErrUnavailable
		case err == nil && len(d.Results) == 0:
			noKey.Write(w, r)
			return
		}
		if err != nil {
			WriteError(w, r, err)
			return
		}
		respond.NoStore(w.Header())
		w.Header().Set("Content-Type", "application/json")
		body, _ := json.Marshal(reportOf(&d)) // texts and numbers: cannot fail
		_, _ = w.Write(append(body, '\n'))
	})
}

var noKey = respond.Problem{
	Type: "about:blank", Title: http.StatusText(http.StatusUnauthorized), Status: http.StatusUnauthorized,
	Detail: "The request has no key: credentials are missing.", Message: http.StatusText(http.StatusUnauthorized),
}

// A report is the JSON of the response.
type report struct {
	Resources map[string]*resource `json:"resources"`
}

type resource struct {
	left
	Limits []limit `json:"limits"`
}

type limit struct {
	left
	Per string `json:"per"`
}

// left is the JSON of one limit.
type left struct {
	Limit     int   `json:"limit"`
	Used      int   `json:"used"`
	Remaining int   `json:"remaining"`
	Reset     int64 `json:"reset"`
}

func reportOf(d *core.Decision) report {
	u := report{Resources: make(map[string]*resource)}
	for i := 0; i < len(d.Results); {
		first := i
		for i < len(d.Results) && d.Results[i].Rule == d.Results[first].Rule {
			i++
		}
		if results := d.Results[first:i]; !results[0].DryRun {
			u.Resources[results[0].Rule] = resourceOf(d.At, results)
		}
	}
	return u
}

// resourceOf returns the JSON of one rule.
func resourceOf(at time.Time, results []core.Result) *resource {
	tightest, ok := core.Decision{At: at, Results: results}.Tightest()
	if !ok { // all limits are of requests in flight
		tightest = results[0]
	}
	r := &resource{left: leftOf(&tightest)}
	for i := range results {
		r.Limits = append(r.Limits, limit{leftOf(&results[i]), per(results[i].Limit)})
	}
	return r
}

func leftOf(r *core.Result) left {
	all := r.Quota()
	wait := r.ResetAfter
	if r.Remaining == 0 {
		wait = r.RefillAfter
	}
	at := r.At.Add(wait)
	reset := at.Unix()
	if at.Nanosecond() > 0 && wait > 0 {
		reset++
	}
	return left{Limit: all, Used: all - r.Remaining, Remaining: r.Remaining, Reset: reset}
}

// per returns "month", "15m" or "at once".
func per(l core.Limit) string {
	switch {
	case l.Calendar.Unit != 0:
		return l.Calendar.Unit.String()
	case l.Algorithm == core.InFlight:
		return "at once"
	}
	_, period, _ := strings.Cut(l.String(), "/")
	period, _, _ = strings.Cut(period, ";")
	return period
}
