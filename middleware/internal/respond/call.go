package respond

import (
	"net/http"
	"slices"
	"strconv"
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

// CallFailure returns the status of a call that could not be decided.
func CallFailure(err error) call.Status { return Failure(err).status() }

func (p Problem) status() call.Status {
	code, wait := call.Internal, core.Never
	switch p.Status {
	case http.StatusBadRequest:
		code = call.InvalidArgument
	case http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(p.retryAfter) // a constant
		code, wait = call.Unavailable, time.Duration(seconds)*time.Second
	}
	return call.NewStatus(code, p.Detail, wait, nil)
}

// DenyCall responds to r, which d denies, if r is a call of gRPC or Connect. Otherwise, it returns false.
func DenyCall(w http.ResponseWriter, r *http.Request, d *core.Decision) bool {
	p := call.Of(r)
	if p != call.None {
		NoStore(w.Header())
		CallDenial(d).Write(w, r, p)
	}
	return p != call.None
}

// FailCall responds to r, which could not be decided, if r is a call of gRPC or Connect. Otherwise, it returns false.
func FailCall(w http.ResponseWriter, r *http.Request, err error) bool {
	return Failure(err).writeCall(w, r)
}

func (p Problem) writeCall(w http.ResponseWriter, r *http.Request) bool {
	c := call.Of(r)
	if c != call.None {
		p.Announce(w.Header())
		p.status().Write(w, r, c)
	}
	return c != call.None
}
