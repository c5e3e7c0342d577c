package accesslog

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// allLines returns the lines and, in < >, the errors that next returns.
func allLines(r io.Reader) (got []string) {
	l := lines{in: r}
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			line = "<" + err.Error() + ">"
		}
		got = append(got, line)
		if err != nil && !errors.Is(err, errTooLong) {
			return got
		}
	}
}

func TestLinesAreReadAcrossBlocks(t *testing.T) {
	long, tooLong := strings.Repeat("l", maxLine), strings.Repeat("x", maxLine+1)
	failing := "<" + iotest.ErrTimeout.Error() + ">"
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"\n", []string{""}},
		{"a\r\nb\n\nc", []string{"a", "b", "", "c"}},
		{long + "\nb", []string{long, "b"}},
		{tooLong + "\nb", []string{"<" + errTooLong.Error() + ">", "b"}},
		{"a\n" + tooLong + tooLong, []string{"a", "<" + errTooLong.Error() + ">"}},
		{strings.Repeat("y", block-1) + "\n" + strings.Repeat("z", block) + "\n", []string{strings.Repeat("y", block-1), strings.Repeat("z", block)}},
	}
	for _, tt := range tests {
		if got := allLines(strings.NewReader(tt.text)); !slices.Equal(got, tt.want) {
			t.Errorf("%.20q: got %d lines, want %d", tt.text, len(got), len(tt.want))
		}
		if got := allLines(iotest.HalfReader(strings.NewReader(tt.text))); !slices.Equal(got, tt.want) {
			t.Errorf("%.20q in small pieces: got %d lines, want %d", tt.text, len(got), len(tt.want))
		}
		got := allLines(io.MultiReader(strings.NewReader(tt.text), iotest.ErrReader(iotest.ErrTimeout)))
		if want := append(slices.Clone(tt.want), failing); !slices.Equal(got, want) {
			t.Errorf("%.20q and an error: got %d lines, want %d", tt.text, len(got), len(want))
		}
	}
}
