package rulefile

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// The bounds of a file. The YAML scanner and parser need quadratic time or memory for some contents. So the reader
// first computes the time and memory that they would need, and rejects a file that needs too much.
const (
	maxBytes   = 1 << 20
	maxTokens  = 200_000
	maxDepth   = 500        // of nested tables and lists
	maxColumn  = 500        // column of the first character of a line
	maxNodes   = 400_000    // after replacing aliases; a long text counts as several
	maxText    = 8192       // bytes of a text that a rule uses, or of a key
	maxScan    = 20_000_000 // characters that the scanner reads more than once or copies
	maxParse   = 40_000_000 // bytes that the parser copies
	maxRoutes  = 20_000
	maxCompare = 60_000_000 // pairs of patterns that are compared
	maxFuncs   = 1000
)

// scan returns the tokens of src up to the first invalid one, or nil after a mistake.
func scan(src string, m *mistakes) (list token.Tokens) {
	if at, why := scannable(src); why != "" {
		m.add(at, "%s", why)
		return nil
	}
	var s scanner.Scanner
	s.Init(src)
	tokens, _ := s.Scan() // an error is a token as well
	list.Add(tokens...)
	return list
}

// scannable returns "" or, if the scanner would need too much time or memory for src, the reason and its place.
func scannable(src string) (at spot, why string) {
	words, work := 0, 0
	line, start := 1, 0 // the line, and where it begins
	tabs, blank := 0, 0 // tabs in the line, and blank lines before it
	isBlank := true
	block := -1 // the last | or >, where a text of several lines may begin
	run := 0    // characters < in a row, or digits behind a | or >
	for i := range len(src) {
		c := src[i]
		switch {
		case c == '<': // the scanner counts the < that follow
			run++
			work += run
		case '0' <= c && c <= '9' && block >= 0 && (run > 0 || block == i-1 || block == i-2 && (src[i-1] == '+' || src[i-1] == '-')):
			if run++; run > 20 { // the scanner reads these digits again for each character of the text
				return spot{line, utf8.RuneCountInString(src[min(start, i):i]) + 1}, "this number is too long"
			}
		default:
			run = 0
		}
		switch {
		case c == '\n':
			work += tabs * (i - start) // in double quotes, the scanner looks for the end of the line at each tab
			if blank++; !isBlank {
				blank = 0
			}
			if block >= 0 && blank > 2 {
				work += i - block // the text is copied for each blank line at its end
			}
			line, start, tabs, isBlank = line+1, i+1, 0, true
			words++
		case c == '\t':
			tabs++
		case c != ' ':
			isBlank = false
		}
		switch c {
		case '|', '>':
			block = i
			words++
		case '[', ']', '{', '}', ',', ':', '\'', '"', '&', '*', '!', '@', '%', '?', '`':
			words++
		case '-':
			if i+1 == len(src) || src[i+1] <= ' ' {
				words++
			}
		}
		switch {
		case words > maxTokens*3/2:
			return spot{1, 1}, "the file has too many words"
		case work+tabs*max(i-start, 0) > maxScan:
			return spot{line, utf8.RuneCountInString(src[min(start, i):i]) + 1}, "there are too many tabs, blank lines or < in a row"
		}
	}
	return spot{}, ""
}

// A level is a table or list whose end has not been read yet.
type level struct {
	bracket token.Type // 0 if it has none
	column  int        // without a bracket: the column of its keys or dashes
	list    bool
	keys    int  // of a table without brackets
	length  int  // of the key, or index, in the path of a node
	text    bool // in brackets: a token follows the last comma
	colon   bool // in brackets: a colon follows the last comma
}

// parsable reports whether tokens can be parsed in bounded time, memory and depth. It tracks their nesting and adds up
// the bytes that the parser copies: the path of each node; for each key, the earlier keys of its table; and for each
// missing value, the rest of the file.
func parsable(tokens token.Tokens, m *mistakes) bool {
	if len(tokens) > maxTokens {
		m.add(spot{1, 1}, "the file has too many words")
		return false
	}
	var levels []level
	var before *token.Token // the token before, or nil
	entry := 0              // column where the last key or value began
	work, path, prefixes, tags, documents := 0, 0, 0, 0, 0
	push := func(l level) { levels, path = append(levels, l), path+l.length }
	pop := func() { levels, path = levels[:len(levels)-1], path-levels[len(levels)-1].length }
	// inner ends the tables without brackets that begin after a column, and the lists that begin at or after it.
	inner := func(column int) {
		for len(levels) > 0 {
			if top := &levels[len(levels)-1]; top.bracket != 0 || top.column < column || top.column == column && !top.list {
				return
			}
			pop()
		}
	}
	key := func(column, length int) {
		inner(column)
		if len(levels) == 0 || levels[len(levels)-1].bracket != 0 || levels[len(levels)-1].column != column {
			push(level{column: column})
		}
		top := &levels[len(levels)-1]
		path += length - top.length
		top.length = length
		top.keys++
		work += 8 * top.keys
	}
	for _, t := range tokens {
		at := spot{t.Position.Line, t.Position.Column}
		isFirst := before == nil || before.Position.Line != at.line
		if isFirst && at.column > maxColumn {
			m.add(at, "this line is indented too far")
			return false
		}
		if before != nil && missing(before, t, isFirst, entry) {
			work += len(tokens)
		}
		if isFirst || begins(before.Type) {
			entry = at.column
		}
		if t.Type != token.AnchorType && t.Type != token.TagType && (before == nil || before.Type != token.AnchorType) {
			prefixes = 0
		}
		switch t.Type {
		case token.CommentType:
			continue
		case token.TagType:
			prefixes++
			tags++
		case token.AnchorType:
			prefixes++
		case token.DocumentHeaderType, token.DocumentEndType:
			if documents++; documents > 10 {
				m.add(at, "a file has one document; this is the second")
				return false
			}
			levels, path = nil, 0
		case token.SequenceStartType, token.MappingStartType:
			push(level{bracket: t.Type, length: 8})
		case token.SequenceEndType, token.MappingEndType, token.CollectEntryType:
			for len(levels) > 0 && levels[len(levels)-1].bracket == 0 {
				pop()
			}
			if len(levels) == 0 {
				break
			}
			top := &levels[len(levels)-1]
			if top.text && !top.colon && top.bracket == token.MappingStartType {
				work += len(tokens)
			}
			path -= top.length - 8
			top.length, top.text, top.colon = 8, false, false
			if t.Type != token.CollectEntryType {
				pop()
			}
		case token.SequenceEntryType:
			inner(at.column)
			push(level{column: at.column, list: true, length: 8})
		case token.MappingKeyType:
			key(at.column, 0)
		case token.MappingValueType:
			length := 0
			if before != nil {
				length = len(before.Value) + 4
			}
			if len(levels) > 0 && levels[len(levels)-1].bracket == token.MappingStartType {
				top := &levels[len(levels)-1]
				path += length - top.length
				top.length, top.colon = length, true
			} else {
				key(entry, length)
			}
		default:
			if len(levels) > 0 {
				levels[len(levels)-1].text = true
			}
		}
		switch work += 2 * path; {
		case len(levels) > maxDepth || prefixes > maxDepth:
			m.add(at, "this is nested too deep")
			return false
		case tags > maxDepth: // the parser nests the following nodes in a tag without a value
			m.add(at, "tags such as %s are not understood", t.Value)
			return false
		case work > maxParse:
			m.add(at, "this is too large: there are too many keys, too long keys or too many values that are missing%s", exceptPlain)
			return false
		}
		before = t
	}
	return true
}

// begins reports whether a key or a value can begin after a token of this type.
func begins(t token.Type) bool {
	switch t {
	case token.SequenceStartType, token.MappingStartType, token.CollectEntryType, token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
		return true
	}
	return false
}

// missing reports whether the parser inserts a value between two tokens. entry is the column of the previous key or
// value.
func missing(before, t *token.Token, isFirst bool, entry int) bool {
	switch before.Type {
	case token.MappingValueType:
		switch t.Type {
		case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
			return true
		}
		return isFirst && t.Position.Column <= entry
	case token.SequenceEntryType:
		return isFirst && t.Position.Column <= before.Position.Column
	}
	return false
}

// comparisons bounds how often core compares patterns with each other. It compares each pattern that matches many paths
// with all patterns, and any other pattern only with these.
type comparisons struct {
	same              map[string]int // patterns by path, whatever the method
	all, general, sum int
}

// add reports whether there is time for one more pattern.
func (c *comparisons) add(pattern string) bool {
	if c.sum > maxCompare || c.all == maxRoutes {
		return false
	}
	path := pattern[strings.LastIndexAny(pattern, " \t")+1:]
	c.sum += c.general + c.same[path]
	if strings.HasSuffix(path, "/") || strings.Contains(path, "{") {
		c.general++
		c.sum += c.all
	}
	c.same[path]++
	c.all++
	return true
}
