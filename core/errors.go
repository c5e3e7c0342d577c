package core

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of error that this module returns. All other errors wrap one of them or come from a callback.
var (
	// ErrNoKey says that a request has no key of the kind that a key func looks for. Adapters answer 400.
	ErrNoKey = errors.New("spillgate: no key")

	// ErrBadKey says that a request has a key of the kind that a key func looks for, but one that is ambiguous or
	// malformed: sent twice, or without a value. It never wraps ErrNoKey, so that no fallback passes over it. Adapters
	// answer 400.
	ErrBadKey = errors.New("spillgate: bad key")

	// ErrUnavailable says that the store could not decide and that the rule fails closed. Adapters answer 503.
	ErrUnavailable = errors.New("spillgate: store unavailable")

	// ErrInvalid says that a limit, a claim, a cost or a configuration makes no sense. Adapters answer 500.
	ErrInvalid = errors.New("spillgate: invalid")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// callbackPanic is the error of a request whose callback panicked.
type callbackPanic struct {
	value any
	stack []byte
}

func (p *callbackPanic) Error() string {
	return fmt.Sprintf("%v: a callback panicked: %v", ErrInvalid, p.value)
}

func (p *callbackPanic) Unwrap() error { return ErrInvalid }

// placed is an error with the place where it happened, such as a rule.
type placed struct {
	where string
	err   error
}

// within returns err with the place where it happened, or nil if err is nil.
func within(where string, err error) error {
	if err == nil {
		return nil
	}
	return &placed{where, err}
}

// Error keeps the prefix of this module in front of each line, and leaves out that what is wrong is invalid.
func (p *placed) Error() string {
	lines := strings.Split(p.err.Error(), "\n")
	for i, line := range lines {
		line = strings.TrimPrefix(line, "spillgate: invalid: ")
		lines[i] = "spillgate: " + p.where + ": " + strings.TrimPrefix(line, "spillgate: ")
	}
	return strings.Join(lines, "\n")
}

func (p *placed) Unwrap() error { return p.err }
