package keyfunc

import "strings"

// The Forwarded header (RFC 7239) is read from its right end like any list, although it has quoted strings: a string
// that ends in a quote begins at the nearest quote on its left that is not escaped. So the elements that a proxy
// appended are read correctly whatever a client wrote before them, even an open quote.

// lastCommaUnquoted returns the index of the last comma in s that is outside of quoted strings. It is -1 if there is
// none, or if a quote to the right of it is unbalanced: then parseForwarded rejects all of s.
func lastCommaUnquoted(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case ',':
			return i
		case '"':
			if escaped(s, i) {
				return -1
			}
			i = lastQuote(s[:i])
		}
	}
	return -1
}

// lastQuote returns the index of the last quote in s that is not escaped, or -1.
func lastQuote(s string) int {
	i := strings.LastIndexByte(s, '"')
	for i >= 0 && escaped(s, i) {
		i = strings.LastIndexByte(s[:i], '"')
	}
	return i
}

// escaped reports whether s[i] follows an odd number of backslashes.
func escaped(s string, i int) bool {
	n := 0
	for n < i && s[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// parseForwarded reads the address of a forwarded-element. It fails on a syntax error anywhere in the element, on
// "unknown" and obfuscated nodes, and if the element has no for parameter or several.
func parseForwarded(element string) (address, bool) {
	node, found := "", false
	for rest := element; rest != ""; rest = trim(rest) {
		if rest[0] == ';' {
			rest = rest[1:]
			continue
		}
		name, value, after, ok := cutPair(rest)
		rest = trim(after)
		if !ok || rest != "" && rest[0] != ';' {
			return address{}, false
		}
		if strings.EqualFold(name, "for") {
			if found {
				return address{}, false
			}
			node, found = value, true
		}
	}
	if !found {
		return address{}, false
	}
	return parseNode(unescape(node))
}

// cutPair cuts name=value off the left end of s. The value is without its quotes, but still has its backslashes.
func cutPair(s string) (name, value, rest string, ok bool) {
	name, rest = cutToken(s)
	if name == "" || !strings.HasPrefix(rest, "=") {
		return "", "", "", false
	}
	if rest = rest[1:]; strings.HasPrefix(rest, `"`) {
		value, rest, ok = cutQuoted(rest[1:])
		return name, value, rest, ok
	}
	value, rest = cutToken(rest)
	return name, value, rest, value != ""
}

// cutToken cuts a token off the left end of s.
func cutToken(s string) (token, rest string) {
	for i := range len(s) {
		if !tokenChar(s[i]) {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// cutQuoted cuts the rest of a quoted string, after its opening quote, off the left end of s.
func cutQuoted(s string) (value, rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

// unescape returns s without the backslashes of its quoted pairs. It allocates only if there are any. Addresses have
// none.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// parseNode reads a node of RFC 7239 §6: an IPv6 address has brackets, a port may be obfuscated.
func parseNode(s string) (address, bool) {
	if i := strings.LastIndex(s, ":_"); i >= 0 && obfuscated(s[i+len(":_"):]) {
		s = s[:i]
	}
	if !strings.HasPrefix(s, "[") && strings.Count(s, ":") > 1 {
		return address{}, false
	}
	return parseElement(s)
}

// obfuscated reports whether s, which follows an underscore, makes an obfuscated port of RFC 7239 §6.3.
func obfuscated(s string) bool {
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && strings.IndexByte("._-", c) < 0 {
			return false
		}
	}
	return s != ""
}
