package expect_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// recorder is a test that records how it failed.
type recorder struct{ said string }

func (r *recorder) Helper()                      {}
func (r *recorder) Errorf(f string, args ...any) { r.said += fmt.Sprintf(f, args...) }
func (r *recorder) Fatal(args ...any)            { r.said += "fatal: " + fmt.Sprint(args...) }

func TestFailures(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", io.EOF)
	for want, check := range map[string]func(*recorder){
		"call 3: got 200, want 429":         func(r *recorder) { expect.Equal(r, 200, 429, "call %d", 3) },
		`key: got "a", want "b"`:            func(r *recorder) { expect.Equal(r, "a", "b", "key") },
		"page: got\na\nb\nwant\nc":          func(r *recorder) { expect.Equal(r, "a\nb", "c", "page") },
		"key: got 0":                        func(r *recorder) { expect.NotEqual(r, 0, 0, "key") },
		"calls: got 3, want at most 2":      func(r *recorder) { expect.AtMost(r, 3, 2, "calls") },
		"calls: got 1, want at least 2":     func(r *recorder) { expect.AtLeast(r, 1, 2, "calls") },
		"nothing of 5":                      func(r *recorder) { expect.True(r, false, "nothing of %d", 5) },
		"keys: got [1 2], want [2 1]":       func(r *recorder) { expect.Elements(r, []int{1, 2}, []int{2, 1}, "keys") },
		`page: got "ab", want "c" in it`:    func(r *recorder) { expect.Contains(r, "ab", "c", "page") },
		"read: read: EOF":                   func(r *recorder) { expect.NoError(r, wrapped, "read") },
		"parse: no error":                   func(r *recorder) { expect.Fails(r, nil, "parse") },
		"ban: got error read: EOF, want no": func(r *recorder) { expect.ErrorIs(r, wrapped, errors.New("no"), "ban") },
		"fatal: calls: got 1, want 2":       func(r *recorder) { must.Equal(r, 1, 2, "calls") },
		"fatal: no call 7":                  func(r *recorder) { must.True(r, false, "no call %d", 7) },
		"fatal: EOF":                        func(r *recorder) { must.Get(1, io.EOF)(r) },
	} {
		var r recorder
		if check(&r); r.said != want {
			t.Errorf("said %q, want %q", r.said, want)
		}
	}
	var r recorder
	expect.Equal(&r, 1, 1, "")
	expect.NotEqual(&r, 1, 2, "")
	expect.AtMost(&r, 2, 2, "")
	expect.AtLeast(&r, 2, 2, "")
	expect.True(&r, true, "")
	expect.Elements(&r, []int{1}, []int{1}, "")
	expect.Contains(&r, "ab", "b", "")
	expect.NoError(&r, nil, "")
	expect.Fails(&r, expect.ErrorOf(1, io.EOF), "")
	expect.ErrorIs(&r, wrapped, io.EOF, "")
	expect.ErrorIs(&r, expect.PanicOf(func() { panic(wrapped) }), io.EOF, "")
	expect.Equal(&r, expect.PanicOf(func() { panic(7) }).Error(), "7", "")
	expect.NoError(&r, expect.PanicOf(func() {}), "")
	must.Equal(&r, 1, 1, "")
	must.True(&r, true, "")
	must.Do(&r, nil)
	if r.said != "" {
		t.Errorf("what is as wanted fails: %s", r.said)
	}
}
