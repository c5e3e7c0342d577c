package core

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spillgate/spillgate/internal/nearest"
)

// The kinds of error that this package returns. Every other error wraps one of these four, or comes from a callback, a
// context or a store. The text of an error begins with "spillgate: ", except for errors of a context and of functions that
// a key func calls, such as Route.
var (
	// ErrNoKey means that a request does not have the identity that a key func looks for. Adapters respond with 400.
	ErrNoKey = errors.New("no key")

	// ErrBadKey means that the identity that a key func looks for is ambiguous or malformed: sent twice, or without a
	// value, or a path that may lead to two routes. It never wraps ErrNoKey, so no fallback ignores it. Adapters respond with 400.
	ErrBadKey = errors.New("bad key")

	// ErrUnavailable means that the store could not decide and the rule fails closed, or the fallback could not decide
	// either. Adapters respond with 503.
	ErrUnavailable = errors.New("store unavailable")

	// ErrInvalid means that a limit, a claim, a cost or a configuration makes no sense. Adapters respond with 500.
	ErrInvalid = errors.New("invalid")
)

// A textError has a text of its own and wraps errors that the text need not quote, such as ErrInvalid.
type textError struct {
	text  string
	wraps []error
}

func (e *textError) Error() string { return e.text }

func (e *textError) Unwrap() []error { return e.wraps }

// invalid is called so often that inlining it makes programs larger.
//
//go:noinline
func invalid(format string, args ...any) error {
	return &textError{fmt.Sprintf(format, args...), []error{ErrInvalid}}
}

// A callbackPanic is the error of a request whose callback panicked.
type callbackPanic struct {
	error
	stack []byte
}

func (p *callbackPanic) Unwrap() error { return p.error }

// Stack returns the stack of the goroutine that panicked.
func (p *callbackPanic) Stack() []byte { return p.stack }

// An errorList is several errors, printed one per line.
type errorList []error

// allOf returns all errs that are not nil as one error, or nil if there are none.
func allOf(errs ...error) error {
	var all errorList
	for _, err := range errs {
		switch err := err.(type) { //nolint:errorlint // the outermost error counts
		case nil:
		case errorList:
			all = append(all, err...)
		default:
			all = append(all, err)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func (l errorList) Error() string { return errors.Join(l...).Error() }

func (l errorList) Unwrap() []error { return l }

// each returns f(err) or, if err is several errors, all of them with f applied to each. It returns nil if err is nil.
func each(err error, f func(error) error) error {
	switch err := err.(type) { //nolint:errorlint // the outermost error counts
	case nil:
		return nil
	case errorList:
		changed := make(errorList, len(err))
		for i := range err {
			changed[i] = f(err[i])
		}
		return changed
	}
	return f(err)
}

// within returns err, or each of several errors, with the place where it happened. It returns nil if err is nil.
func within(place string, err error) error {
	return each(err, func(err error) error {
		if p, ok := err.(*prefixed); ok { //nolint:errorlint // the outermost error counts
			err = p.error
		}
		return fmt.Errorf("%s: %w", place, err)
	})
}

func inRule(rule string, err error) error { return within(fmt.Sprintf("rule %q", rule), err) }

// A prefixed error is an error of an exported function: its text begins with "spillgate: ".
type prefixed struct{ error }

func (p *prefixed) Error() string { return "spillgate: " + p.error.Error() }

func (p *prefixed) Unwrap() error { return p.error }

// prefix adds "spillgate: " to err, or to each of several errors. It returns nil if err is nil.
func prefix(err error) error {
	return each(err, func(err error) error {
		if strings.HasPrefix(err.Error(), "spillgate: ") { // the error of a store, or of another function of this module
			return err
		}
		return &prefixed{err}
	})
}

// unavailable wraps an error of a store in ErrUnavailable, unless the claims are at fault.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// didYouMean suggests the known word that is most similar to word, between before and after, or "" if none is similar.
func didYouMean(before, word string, known []string, after string) string {
	meant := nearest.Word(word, known)
	if meant == "" || meant == word {
		return ""
	}
	return "; did you mean " + before + meant + after + "?"
}
