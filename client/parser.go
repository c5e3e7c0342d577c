package client

import (
	"strconv"
	"strings"
)

// A parser reads a List or a Dictionary of structured fields, RFC 9651, as far as rate limits need it: the members are
// Strings, Tokens or Integers, or keys with one of these as value. Tokens may be longer than they should.
type parser struct {
	rest   string
	failed bool
}

// A member is a member of a List or a Dictionary, with the parameters that rate limits need.
type member struct {
	name       string // the String, the Token or the key
	value      number // of a key
	r, t, q, w number
	unit       string // qu
}

// A number is an Integer; not ok if it is missing.
type number struct {
	n  int64
	ok bool
}

// next reads a member into m. It returns false at the end, or if the field is malformed.
func (p *parser) next(m *member) bool {
	*m = member{}
	p.space()
	if p.rest == "" || p.failed {
		return false
	}
	m.name = p.item()
	if p.skip('=') {
		m.value = parseNumber(p.item())
	}
	for p.space(); p.skip(';'); p.space() {
		p.space()
		key, text := p.token(), ""
		if p.skip('=') {
			text = p.item()
		}
		m.set(key, text)
	}
	if !p.skip(',') && p.rest != "" {
		p.failed = true
	}
	return !p.failed
}

func (m *member) set(key, text string) {
	switch key {
	case "r":
		m.r = parseNumber(text)
	case "t":
		m.t = parseNumber(text)
	case "q":
		m.q = parseNumber(text)
	case "w":
		m.w = parseNumber(text)
	case "qu":
		m.unit = text
	}
}

// parseNumber reads an Integer or a Decimal, rounded down, that is not negative.
func parseNumber(s string) number {
	whole, _, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	return number{n, err == nil && n >= 0}
}

// item reads a String, without its quotes, a Byte Sequence or a Token.
func (p *parser) item() string {
	switch {
	case p.skip('"'):
		return p.quoted()
	case p.skip(':'):
		text, rest, ok := strings.Cut(p.rest, ":")
		p.rest, p.failed = rest, p.failed || !ok
		return text
	}
	return p.token()
}

// quoted reads a String to its end.
func (p *parser) quoted() string {
	for i := 0; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '"':
			text := p.rest[:i]
			p.rest = p.rest[i+1:]
			return unescape(text)
		case '\\':
			i++
		}
	}
	p.rest, p.failed = "", true
	return ""
}

func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(s)
}

// token reads up to a separator. An empty one is malformed.
func (p *parser) token() string {
	end := strings.IndexAny(p.rest, "=;, \t\"")
	if end < 0 {
		end = len(p.rest)
	}
	text := p.rest[:end]
	p.rest, p.failed = p.rest[end:], p.failed || end == 0
	return text
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

func (p *parser) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}
