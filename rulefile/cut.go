package rulefile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFile bounds a file with its overrides. Without overrides, a file has at most maxBytes.
const maxFile = 16 << 20

// exceptPlain says what does not count for a file that is too large.
const exceptPlain = "; overrides with one plain entry per line, without aliases, do not count"

// minCut is the number of entries from which overrides are cut. The YAML parser reads fewer entries fast enough.
const minCut = 200

// cutOverrides cuts the entries of long overrides out of src, because the YAML parser takes quadratic time for a long
// table. It returns src with blank lines in place of the entries, and the entries by the line of their overrides field.
//
// It cuts only entries that it reads exactly as YAML does: one entry per line, all at one column, each with a key
// (plain, or in double quotes without a backslash), a colon and a plain text. It leaves other overrides to the parser.
func cutOverrides(src string) (rest string, cut map[int][]field) {
	const name = "overrides:"
	if !strings.Contains(src, name) || strings.Count(src, "\n") < minCut {
		return src, nil
	}
	var b strings.Builder
	lines := strings.SplitAfter(src, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		b.WriteString(line)
		indent := indentOf(line)
		if first := strings.TrimPrefix(line[indent:], "- "); len(first) < len(line)-indent { // the first field of a rule
			indent += 2 + indentOf(first)
		}
		if text := strings.TrimSpace(line[indent:]); text != name && !strings.HasPrefix(text, name+" #") {
			continue
		}
		entries, end := simpleEntries(lines, i+1, indent)
		if len(entries) < minCut {
			continue
		}
		if cut == nil {
			cut = make(map[int][]field)
		}
		cut[i+1] = entries
		b.WriteString(strings.Repeat("\n", strings.Count(strings.Join(lines[i+1:end], ""), "\n")))
		i = end - 1
	}
	return b.String(), cut
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// simpleEntries reads the entries that begin in line first and are indented by more than column. It returns them and
// the line after them, or no entries if one of them is not simple.
func simpleEntries(lines []string, first, column int) (entries []field, end int) {
	indent := -1
	for end = first; end < len(lines); end++ {
		line := strings.TrimSuffix(lines[end], "\n")
		text := strings.TrimLeft(line, " ")
		at := len(line) - len(text)
		switch {
		case text == "" || text[0] == '#':
			continue
		case at <= column:
			return entries, end
		case indent < 0:
			indent = at
		}
		f, ok := simpleEntry(text, end+1, at+1)
		if !ok || at != indent {
			return nil, first
		}
		entries = append(entries, f)
	}
	return entries, end
}

// simpleEntry reads one entry, which begins at a column.
func simpleEntry(text string, line, column int) (f field, ok bool) {
	var key, rest string
	var quoted bool
	if text[0] == '"' {
		if key, rest, quoted = strings.Cut(text[1:], `"`); !quoted {
			return f, false
		}
		rest, ok = strings.CutPrefix(rest, ":")
	} else {
		key, rest, ok = strings.Cut(text, ": ")
		rest = " " + rest
		if !isPlain(key) {
			return f, false
		}
	}
	if !ok || !strings.HasPrefix(rest, " ") || !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c == '\\' || unicode.IsControl(c) }) {
		return f, false
	}
	before := len(text) - len(strings.TrimLeft(rest, " "))
	value, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " #")
	value = strings.TrimRight(value, " ")
	if value == "" || !isPlain(value) || key == "" || len(text) > maxText {
		return f, false
	}
	f.key = &node{spot: spot{line, column}, kind: aText, text: key, verbatim: column, size: 1}
	if quoted {
		f.key.verbatim++
	}
	at := column + utf8.RuneCountInString(text[:before])
	f.value = &node{spot: spot{line, at}, kind: aText, text: value, verbatim: at, size: 1}
	return f, true
}

// isPlain reports whether YAML reads s as a plain text: it begins with a letter or a digit, contains no character with
// a special meaning, and is not null.
func isPlain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && strings.IndexByte(`./;=_+@|*%(),- `, c) >= 0:
		case i > 0 && c == ':' && i+1 < len(s) && s[i+1] != ' ':
		default:
			return false
		}
	}
	return s != "" && !strings.EqualFold(s, "null")
}
