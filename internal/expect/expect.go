// Package expect compares what a test got with what it wants, and goes on:
//
//	expect.Equal(t, w.Code, 429, "request %d", i)
//
// fails with "request 3: got 200, want 429". Package must has the same comparison for tests that cannot go on.
package expect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// T is a test: of package testing, or of rapid.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Equal fails t if got is not want. The format and its args say what was compared.
func Equal[V comparable](t T, got, want V, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s", Difference(got, want, fmt.Sprintf(format, args...)))
	}
}

// NotEqual fails t if got is the value not.
func NotEqual[V comparable](t T, got, not V, format string, args ...any) {
	t.Helper()
	if got == not {
		t.Errorf("%s: got %s", fmt.Sprintf(format, args...), text(got))
	}
}

// AtMost fails t if got is above most.
func AtMost[V cmp.Ordered](t T, got, most V, format string, args ...any) {
	t.Helper()
	if got > most {
		t.Errorf("%s: got %v, want at most %v", fmt.Sprintf(format, args...), got, most)
	}
}

// AtLeast fails t if got is below least.
func AtLeast[V cmp.Ordered](t T, got, least V, format string, args ...any) {
	t.Helper()
	if got < least {
		t.Errorf("%s: got %v, want at least %v", fmt.Sprintf(format, args...), got, least)
	}
}

// True fails t if ok is false; the format and its args are the whole message.
func True(t T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Elements fails t if got has other elements than want, or the same in another order.
func Elements[V comparable](t T, got, want []V, format string, args ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s", Difference(got, want, fmt.Sprintf(format, args...)))
	}
}

// Contains fails t if part is not in got.
func Contains(t T, got, part, format string, args ...any) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: got %q, want %q in it", fmt.Sprintf(format, args...), got, part)
	}
}

// NoError fails t if err is not nil.
func NoError(t T, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// Fails fails t if err is nil.
func Fails(t T, err error, format string, args ...any) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", fmt.Sprintf(format, args...))
	}
}

// ErrorIs fails t if err does not wrap want.
func ErrorIs(t T, err, want error, format string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

// ErrorOf is the error of a call that returns a value with it.
func ErrorOf[V any](_ V, err error) error { return err }

// PanicOf is what f panics with, as an error: nil if f returns.
func PanicOf(f func()) (err error) {
	defer func() {
		v := recover()
		if err, _ = v.(error); err == nil && v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	f()
	return nil
}

// Difference says that about is got where want is expected.
func Difference(got, want any, about string) string {
	g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want)
	if strings.Contains(g+w, "\n") {
		return fmt.Sprintf("%s: got\n%s\nwant\n%s", about, g, w)
	}
	return fmt.Sprintf("%s: got %s, want %s", about, text(got), text(want))
}

// text returns v as %+v does, and quotes a string.
func text(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%+v", v)
}
