package accesslog

import (
	"errors"
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

	wrapper string // the field of a JSON object that has the line; "" if a line is not wrapped
}

// first returns the first lines without consuming them, as far as they are in one block, but not the empty ones. It
// returns io.EOF if there are none.
func (l *lines) first() (first []string, err error) {
	if l.text == "" {
		l.fill()
	}
	if strings.HasPrefix(l.text, "\xff\xfe") || strings.HasPrefix(l.text, "\xfe\xff") || strings.Count(l.text[:min(2, len(l.text))], "\x00") == 1 {
		return nil, errors.New("the log is UTF-16, want UTF-8")
	}
	for strings.HasPrefix(l.text, hole) {
		if l.text = strings.TrimLeft(l.text, hole); l.text == "" && l.err == nil {
			l.fill()
		}
	}
	for line := range strings.Lines(l.text) {
		if text, whole := strings.CutSuffix(line, "\n"); whole || l.err != nil {
			if text = l.unwrapped(text); text != "" {
				first = append(first, text)
			}
		}
	}
	if len(first) == 0 {
		err = l.err
	}
	return first, err
}

// hole fills the beginning of a log that logrotate has truncated while its writer goes on at the old position.
const hole = "\x00"

// unwrapped returns a line without its line ending, and without the hole and the byte order mark that a file begins with:
// files are often concatenated.
func (l *lines) unwrapped(line string) string {
	line = strings.TrimRight(strings.TrimPrefix(strings.TrimLeft(line, hole), "\ufeff"), " \r")
	if l.wrapper != "" {
		if wrapped := jsonField(jsonOf(line), l.wrapper); wrapped != "" {
			return strings.TrimRight(wrapped, " \r\n")
		}
	}
	return line
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
			return l.unwrapped(line), nil
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
