// Package must ends a test if a step that prepares it fails.
package must

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/expect"
)

// T is a test: of package testing, or of rapid.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Get returns a func that returns v, or ends its test if err is not nil:
//
//	f := must.Get(os.Open(name))(t)
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends t if err is not nil.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal ends t if got is not want, before the test goes on with what would make no sense. It fails as expect.Equal does.
func Equal[V comparable](t T, got, want V, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Fatal(expect.Difference(got, want, fmt.Sprintf(format, args...)))
	}
}

// True ends t if ok is false; the format and its args are the whole message.
func True(t T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatal(fmt.Sprintf(format, args...))
	}
}
