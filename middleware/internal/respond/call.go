package respond

import (
	"net/http"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/call"
)

// CallDenial returns the status of a call that d denies. It names the rules, but no key.
func CallDenial(d *core.Decision) call.Status {
	var rules []string
	for i := range d.Results {
		if r := &d.Results[i]; !r.DryRun && !r.Allowed && !slices.Contains(rules, r.Rule) {
			rules = append(rules, r.Rule)
		}
	}
	return call.NewStatus(call.ResourceExhausted, denialOf(d).problem.Detail, d.RetryAfter(), rules)
}

// CallStatus returns p as the status of a call that could not be decided.
func (p Problem) CallStatus() call.Status {
	code, wait := call.Internal, core.Never
	switch p.Status {
	case http.StatusBadRequest:
		code = call.InvalidArgument
	case http.StatusServiceUnavailable:
		code, wait = call.Unavailable, unavailableRetry*time.Second
	}
	return call.NewStatus(code, p.Detail, wait, nil)
}

// DenyCall responds to r, which d denies, if r is a call of gRPC or Connect. Otherwise, it returns false.
func DenyCall(w http.ResponseWriter, r *http.Request, d *core.Decision) bool {
	if call.Of(r) == call.None {
		return false
	}
	NoStore(w.Header())
	CallDenial(d).Write(w, r)
	return true
}

// WriteCall responds to r with p if r is a call of gRPC or Connect. Otherwise, it returns false.
func (p Problem) WriteCall(w http.ResponseWriter, r *http.Request) bool {
	if call.Of(r) == call.None {
		return false
	}
	p.Announce(w.Header())
	p.CallStatus().Write(w, r)
	return true
}
