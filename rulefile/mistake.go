package rulefile

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spillgate/spillgate/core"
)

// A Mistake is one error in a file.
type Mistake struct {
	File         string
	Line, Column int // of the first wrong character, from 1
	Text         string
	Source       string // the line

	more int // other mistakes that it stands for; 0 if it is one itself
}

// Error returns "spillgate.yaml:4:5: text", the line and a caret below the column.
func (m *Mistake) Error() string {
	const longest = 160
	at := min(max(m.Column-1, 0), utf8.RuneCountInString(m.Source))
	from := 0
	if at > longest-20 {
		from = at - 20
	}
	line := m.Source
	for range from {
		_, size := utf8.DecodeRuneInString(line)
		line = line[size:]
	}
	shown := []rune(line[:min(len(line), utf8.UTFMax*longest)])
	number := fmt.Sprintf("%5d | ", m.Line)
	return fmt.Sprintf("%s:%d:%d: %s\n%s%s\n%s^", m.File, m.Line, m.Column, m.Text,
		number, printable(shown[:min(len(shown), longest)]), strings.Repeat(" ", len(number)-2)+"| "+strings.Repeat(" ", at-from))
}

// printable replaces the characters that would move the cursor of a terminal.
func printable(line []rune) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0:
			return '?'
		}
		return r
	}, string(line))
}

// Unwrap returns core.ErrInvalid.
func (m *Mistake) Unwrap() error { return core.ErrInvalid }

// Mistakes are the errors in a file, in the order of its lines. After the first 100, one more says how many others
// there are.
type Mistakes []*Mistake

// Count returns the number of mistakes, including those that have no text of their own.
func (m Mistakes) Count() int {
	if n := len(m); n > 0 && m[n-1].more > 0 {
		return n - 1 + m[n-1].more
	}
	return len(m)
}

// Error returns the texts of all mistakes.
func (m Mistakes) Error() string {
	texts := make([]string, len(m))
	for i, one := range m {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns each mistake.
func (m Mistakes) Unwrap() []error {
	errs := make([]error, len(m))
	for i, one := range m {
		errs[i] = one
	}
	return errs
}

// maxMistakes is how many mistakes are reported one by one.
const maxMistakes = 100

// mistakes collects the mistakes of a file while it is read.
type mistakes struct {
	file  string
	lines []string
	found Mistakes // the mistakes nearest to the start so far: at least maxMistakes and less than three times as many, if there are so many
	seen  map[mistakeID]bool

	warnings []*Mistake
}

// A mistakeID identifies the place and the text of a mistake.
type mistakeID struct {
	spot
	text uint64
}

var mistakeSeed = maphash.MakeSeed()

func newMistakes(file, src string) *mistakes {
	return &mistakes{file: file, lines: strings.Split(src, "\n"), seen: make(map[mistakeID]bool)}
}

// add adds a mistake. It adds a mistake that an alias repeats only once.
func (m *mistakes) add(at spot, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	id := mistakeID{at, maphash.String(mistakeSeed, text)}
	if m.seen[id] {
		return
	}
	m.seen[id] = true
	if m.found = append(m.found, m.at(at, text)); len(m.found) >= 3*maxMistakes {
		m.sort()
		m.found = m.found[:maxMistakes+1]
	}
}

// warn adds a warning, which does not make the file invalid.
func (m *mistakes) warn(at spot, text string) { m.warnings = append(m.warnings, m.at(at, text)) }

// at returns a mistake at a spot.
func (m *mistakes) at(at spot, text string) *Mistake {
	const most = 1000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + ".."
	}
	one := &Mistake{File: m.file, Line: at.line, Column: at.column, Text: text}
	if at.line >= 1 && at.line <= len(m.lines) {
		one.Source = m.lines[at.line-1]
	}
	return one
}

func (m *mistakes) sort() {
	slices.SortStableFunc(m.found, func(a, b *Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// isRepeated reports whether seen has a name, which is a mistake at a spot. It sets the spot of the name.
func (m *mistakes) isRepeated(seen map[string]spot, name string, at spot) bool {
	first, again := seen[name]
	seen[name] = at
	if again {
		m.add(at, "%s is here twice, first in line %d", name, first.line)
	}
	return again
}

// err returns the mistakes found, or nil.
func (m *mistakes) err() error {
	if len(m.found) == 0 {
		return nil
	}
	m.sort()
	if more := len(m.seen) - maxMistakes; more > 0 {
		last := m.found[maxMistakes]
		last.more = more
		if last.Text = "there is 1 more mistake"; more > 1 {
			last.Text = fmt.Sprintf("there are %d more mistakes", more)
		}
		m.found = m.found[:maxMistakes+1]
	}
	return m.found
}
