package telemetry

import (
	"errors"

	"github.com/spillgate/spillgate/core"
)

// The outcomes of a request. A decision is either made by the store or degraded.
const (
	allowed = iota
	allowedDegraded
	denied
	deniedDegraded
	noKey
	badKey
	invalid
	unavailable
	outcomes
)

var outcomeNames = [outcomes]string{
	"allowed", "allowed", "denied", "denied", "no_key", "bad_key", "invalid", "unavailable",
}

// OutcomeOf returns the outcome of a request, as in Requests.Outcome.
func OutcomeOf(o *core.Observation) string { return outcomeNames[outcomeOf(o)] }

// outcomeOf returns the outcome of a request.
func outcomeOf(o *core.Observation) int {
	switch {
	case o.Err != nil:
		return failureOf(o.Err)
	case o.Allowed && o.Degraded == nil:
		return allowed
	case o.Allowed:
		return allowedDegraded
	case o.Degraded == nil:
		return denied
	}
	return deniedDegraded
}

// failureOf returns the outcome of a request that was not decided. An error of a key func that is none of the four kinds
// is a mistake of the application.
func failureOf(err error) int {
	switch {
	case errors.Is(err, core.ErrUnavailable):
		return unavailable
	case errors.Is(err, core.ErrInvalid):
		return invalid
	case errors.Is(err, core.ErrBadKey):
		return badKey
	case errors.Is(err, core.ErrNoKey):
		return noKey
	}
	return invalid
}

// The results of one limit by itself, whatever the other limits decide.
const (
	resultAllowed = iota
	resultNear    // allowed, with less than a fifth of the capacity remaining
	resultDenied
	resultWouldDeny // a dry run
	resultWouldWait // a dry run
	results
)

var resultNames = [results]string{"allowed", "near", "denied", "would_deny", "would_wait"}
