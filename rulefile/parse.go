package rulefile

import (
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/nearest"
)

// The fields of a file and of its tables.
var (
	fileFields  = []string{"proxies", "funcs", "skip", "rules"}
	skipFields  = []string{"addresses", "routes", "preflight"}
	proxyFields = []string{"trusted", "header", "hops", "unix", "ipv6_bits"}
	ruleFields  = []string{"name", "match", "headers", "key", "limits", "tiers", "overrides", "cost", "cost_after", "dry_run", "on_failure", "lease", "max_wait"}
)

// A reader turns the tree of a file into rules.
type reader struct {
	*mistakes
	resolver
	ip   core.KeyFunc    // the key func of ip
	skip *skip           // requests that no rule applies to; nil for none
	cut  map[int][]field // entries of overrides by the line of the field: see cutOverrides

	ipv6Bits int // of proxies; 0 for the default
	rules    []core.Rule
	about    []detail
	tables   map[string]string
	names    map[string]spot
	paths    comparisons
}

func parse(name string, src []byte, with resolver) (*File, error) {
	text := legible(strings.TrimPrefix(string(src), "\ufeff")) // the byte order mark of UTF-8
	r := &reader{mistakes: newMistakes(name, text), resolver: with, names: make(map[string]spot), paths: comparisons{same: make(map[string]int)}}
	if len(src) > maxFile { // Read may have read only a part
		r.add(spot{1, 1}, "the file has more than %d bytes", maxFile)
		return nil, r.err()
	}
	text, r.cut = cutOverrides(text)
	if root := parseTree(text, r.mistakes); root != nil {
		r.file(root)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return &File{Rules: r.rules, Hash: hashOf(src), Warnings: r.warnings, details: r.about, tables: r.tables}, nil
}

// legible returns src as the scanner gives the right places: it counts some CR LF twice, and adds white space at the end of a
// line to the column of the text before it. White space after a backslash stays, because it can be a part of the text.
func legible(src string) string {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(src, "\n")
	for i, line := range lines {
		if line = strings.TrimRight(line, " \t"); !strings.HasSuffix(line, `\`) {
			lines[i] = line
		}
	}
	return strings.Join(lines, "\n")
}

func (r *reader) file(root *node) {
	fields := r.fields(root, "the file", fileFields)
	if fields == nil {
		return
	}
	r.tables = map[string]string{"proxies": fields["proxies"].value.plain(), "skip": fields["skip"].value.plain()}
	r.declare(fields["funcs"])
	r.proxies(fields["proxies"])
	r.skips(fields["skip"], fields["proxies"].key != nil)
	list, ok := fields["rules"]
	switch {
	case !ok:
		r.add(root.spot, "there are no rules")
		return
	case list.value.kind == broken:
		return
	case list.value.kind == noValue, list.value.kind == aList && len(list.value.list) == 0:
		r.add(list.key.spot, "there are no rules")
		return
	case list.value.kind != aList:
		r.add(list.value.spot, "rules: want a list, got %s", list.value.kind)
		return
	}
	for _, n := range list.value.list {
		r.rule(n)
	}
	r.checkRules()
}

// fields returns the fields of a table by name, or nil if n is not a table. Unknown and repeated fields are mistakes.
// fields reads a misspelled field as the nearest known field, to find the mistakes in its value as well.
func (r *reader) fields(n *node, what string, known []string) map[string]field {
	if n.kind == broken {
		return nil
	}
	if n.kind != aTable {
		r.add(n.spot, "%s: want a table with the fields %s, got %s", what, strings.Join(known, ", "), n.kind)
		return nil
	}
	fields := make(map[string]field, len(n.table))
	var misspelled []field
	for _, f := range n.table {
		name := f.key.text
		isKnown := contains(known, name)
		switch before, again := fields[name]; {
		case again:
			r.add(f.key.spot, "%s is here twice, first in line %d", name, before.key.line)
		case !isKnown && !strings.HasPrefix(name, "x-"):
			r.add(f.key.spot, "unknown field %q of %s%s", name, what, r.didYouMean(name, known))
			misspelled = append(misspelled, f)
		default:
			fields[name] = f
		}
	}
	for _, f := range misspelled {
		if !r.suggests() {
			break
		}
		meant := nearest.Word(f.key.text, known)
		if _, set := fields[meant]; !set && meant != "" {
			fields[meant] = f
		}
	}
	return fields
}

// suggests reports whether to add suggestions to mistakes: only the first ones get suggestions, which take time.
func (m *mistakes) suggests() bool { return len(m.seen) <= 2*maxMistakes }

// didYouMean returns the suggestion for an unknown word, or "".
func (m *mistakes) didYouMean(word string, known []string) string {
	if !m.suggests() {
		return ""
	}
	if meant := nearest.Word(word, known); meant != "" {
		return "; did you mean " + meant + "?"
	}
	const most = 30
	if len(known) > most {
		return "; want " + strings.Join(known[:most], ", ") + ", .."
	}
	return "; want " + strings.Join(known, ", ")
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// text returns the text of a field, or "" after a mistake.
func (r *reader) text(f field) string {
	if f.value.kind != aText || f.value.text == "" {
		r.unexpected(f, f.value, "a text")
		return ""
	}
	if r.isTooLong(f, f.value) {
		return ""
	}
	return f.value.text
}

// isTooLong reports whether n has a text that is too long, which is a mistake.
func (r *reader) isTooLong(f field, n *node) bool {
	if len(n.text) <= maxText {
		return false
	}
	r.add(n.spot, "%s: this text has %d bytes, want at most %d", f.key.text, len(n.text), maxText)
	return true
}

// unexpected adds the mistake that a node of a field has another kind than wanted.
func (r *reader) unexpected(f field, n *node, want string) {
	at, got := n.spot, string(n.kind)
	switch n.kind {
	case broken: // added before
		return
	case noValue:
		at = f.key.spot
	default:
		if strings.Contains(want, got) {
			got = "an empty one"
		}
	}
	r.add(at, "%s: want %s, got %s", f.key.text, want, got)
}

// texts returns the texts of a field that is a text or a list of texts.
func (r *reader) texts(f field) (texts []*node) {
	if f.value.kind == aText && f.value.text != "" {
		if r.isTooLong(f, f.value) {
			return nil
		}
		return []*node{f.value}
	}
	if f.value.kind != aList || len(f.value.list) == 0 {
		r.unexpected(f, f.value, "a text or a list of texts")
		return nil
	}
	for _, n := range f.value.list {
		if n.kind != aText || n.text == "" {
			r.unexpected(f, n, "a text")
			continue
		}
		if r.isTooLong(f, n) {
			continue
		}
		texts = append(texts, n)
	}
	return texts
}
