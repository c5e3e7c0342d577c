package keyfunc

import "strings"

// walk reads a list from its right end and returns the client. If the list is unresolved, walk returns the last trusted
// hop and false.
func (c *ClientIP) walk(list elements, parse func(string) (address, bool), peer address) (address, bool) {
	hop, hops := peer, 0
	for n := 0; ; n++ {
		element, ok := list.next()
		if !ok {
			return hop, c.Hops == 0
		}
		if n == maxElements {
			return hop, false
		}
		if element == "" {
			continue
		}
		a, ok := parse(element)
		if !ok {
			return hop, false
		}
		if hops++; hops == c.Hops || c.Hops == 0 && !c.trusts(a.ip) {
			return a, true
		}
		if c.Hops == 0 {
			hop = a
		}
	}
}

// lastLine returns the address that is the last of lines, or peer if there are none. If it does not parse, it returns
// peer and false.
func lastLine(lines []string, peer address) (address, bool) {
	if len(lines) == 0 {
		return peer, true
	}
	if a, ok := parseElement(trim(lines[len(lines)-1])); ok {
		return a, true
	}
	return peer, false
}

// parseElement reads an element that a proxy wrote.
func parseElement(s string) (address, bool) {
	a, ok := parseHost(s)
	return a, ok && plainZone(a.zone)
}

// plainZone reports whether zone has only the characters of RFC 6874, and at most 32. Nothing else from a header is
// copied into a key unchanged.
func plainZone(zone string) bool {
	for i := range len(zone) {
		if c := zone[i]; !alphanumeric(c) && strings.IndexByte("-._~", c) < 0 {
			return false
		}
	}
	return len(zone) <= 32
}

// elements iterates over the elements of a list header, from the right end of its last line to the left end of its
// first. It reads nothing to the left of the last element requested.
type elements struct {
	lines  []string // lines that were not read yet
	line   string   // the unread left end of the current line
	begun  bool     // line has another element
	quoted bool     // a comma in a quoted string is no separator
}

// next returns the next element, trimmed, or false if there is none.
func (e *elements) next() (string, bool) {
	if !e.begun {
		last := len(e.lines) - 1
		if last < 0 {
			return "", false
		}
		e.line, e.lines = e.lines[last], e.lines[:last]
	}
	comma := strings.LastIndexByte(e.line, ',')
	if e.quoted {
		comma = lastCommaUnquoted(e.line)
	}
	element := e.line[comma+1:]
	e.line, e.begun = e.line[:max(comma, 0)], comma >= 0
	return trim(element), true
}

// trim strips the whitespace that RFC 9110 §5.6.3 allows around an element.
func trim(s string) string { return strings.Trim(s, " \t") }
