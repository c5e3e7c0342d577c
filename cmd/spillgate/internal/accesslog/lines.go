package accesslog

import (
	"fmt"
	"io"
	"strings"
)

const (
	maxLine = 1 << 20   // bytes of a line
	block   = 256 << 10 // bytes that are read at a time
)

var errTooLong = fmt.Errorf("the line is longer than %d bytes", maxLine)

// lines reads lines. The lines of a block are substrings of one string, which avoids an allocation per line.
type lines struct {
	in     io.Reader
	buffer []byte
	text   string // read, but not returned
	err    error  // after text
}

// first returns up to 20 lines without consuming them.
func (l *lines) first() (first []string) {
	l.fill()
	for line := range strings.Lines(l.text) {
		if text, whole := strings.CutSuffix(line, "\n"); len(first) < 20 && (whole || l.err != nil) && text != "" {
			first = append(first, strings.TrimRight(text, "\r"))
		}
	}
	return first
}

// next returns the next line without its line ending. It returns errTooLong once for a line that is too long.
func (l *lines) next() (line string, err error) {
	tooLong := false
	for {
		line, rest, whole := strings.Cut(l.text, "\n")
		switch {
		case whole, l.err != nil && line != "":
			l.text = rest
			if tooLong || len(line) > maxLine {
				return "", errTooLong
			}
			return strings.TrimRight(line, "\r"), nil
		case l.err != nil && tooLong:
			return "", errTooLong
		case l.err != nil:
			return "", l.err
		case len(l.text) > maxLine:
			l.text, tooLong = "", true
		}
		l.fill()
	}
}

// fill appends a block to text.
func (l *lines) fill() {
	if want := len(l.text) + block; len(l.buffer) < want {
		l.buffer = make([]byte, want)
	}
	kept := copy(l.buffer, l.text)
	end := kept
	for end < kept+block && l.err == nil {
		n, err := l.in.Read(l.buffer[end : kept+block])
		end, l.err = end+n, err
	}
	l.text = string(l.buffer[:end])
}
