package core

import "errors"

// The three kinds of error that this module returns. All other errors wrap one of them or come from a callback.
var (
	// ErrNoKey says that a request has no identifier of the kind a key func looks for. Adapters answer 400.
	ErrNoKey = errors.New("spillgate: no key")

	// ErrUnavailable says that the store could not decide and that the rule fails closed. Adapters answer 503.
	ErrUnavailable = errors.New("spillgate: store unavailable")

	// ErrInvalid says that a limit, a claim, a cost or a configuration makes no sense. Adapters answer 500.
	ErrInvalid = errors.New("spillgate: invalid")
)
