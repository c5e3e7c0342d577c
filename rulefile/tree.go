package rulefile

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A spot is a place in a file.
type spot struct{ line, column int }

// A node is a value of a file: a table, a list or a text.
type node struct {
	spot
	kind     kind
	text     string
	verbatim int // column of text in the file, or 0 if the file has it in another form
	bytes    int // bytes of text that within has counted
	runes    int // in these bytes
	list     []*node
	table    []field
	size     int // nodes in it
}

type field struct{ key, value *node }

type kind string

const (
	aText   kind = "a text"
	aList   kind = "a list"
	aTable  kind = "a table"
	noValue kind = "nothing"
	broken  kind = "something else" // already added as a mistake
)

// plain returns the contents of n without their layout in the file, or "" if n is nil.
func (n *node) plain() string {
	if n == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(n.text)
	for _, item := range n.list {
		b.WriteString("\n- " + item.plain())
	}
	for _, f := range n.table {
		b.WriteString("\n" + f.key.text + ": " + f.value.plain())
	}
	return b.String()
}

func spotOf(n ast.Node) spot {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return spotOf(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return spotOf(n.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return spot{t.Position.Line, t.Position.Column}
	}
	return spot{1, 1}
}

// A tree converts the output of the YAML parser into nodes. Aliases are replaced by their values.
type tree struct {
	*mistakes
	anchors map[string]*node
	nodes   int
	full    bool
}

func (t *tree) node(n ast.Node) *node {
	at := &node{spot: spotOf(n), kind: noValue, size: 1}
	switch n := n.(type) {
	case *ast.MappingNode:
		t.table(at, n.Values)
	case *ast.MappingValueNode:
		t.table(at, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		at.kind = aList
		for _, v := range n.Values {
			item := t.node(v)
			at.list = append(at.list, item)
			at.size += item.size
		}
	case *ast.AnchorNode:
		value := t.node(n.Value)
		t.anchors[n.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		return t.alias(at, n)
	case *ast.TagNode:
		at.kind = broken
		t.add(at.spot, "tags such as %s are not understood", n.GetToken().Value)
	case *ast.LiteralNode:
		at.kind, at.text = aText, strings.TrimSpace(n.Value.Value)
	case *ast.NullNode, nil:
	case ast.ScalarNode:
		at.kind, at.text, at.verbatim = aText, n.GetToken().Value, verbatim(n.GetToken())
	default:
		at.kind = broken
		t.add(at.spot, "a %v is not understood here", n.Type())
	}
	more := len(at.text) / 16
	at.size += more
	t.count(at.spot, 1+more)
	return at
}

func (t *tree) alias(at *node, n *ast.AliasNode) *node {
	name := n.Value.GetToken().Value
	value, ok := t.anchors[name]
	if !ok {
		t.add(at.spot, "there is no anchor &%s before this alias", name)
		at.kind = broken
		return at
	}
	t.count(at.spot, value.size)
	if t.full {
		at.kind = broken
		return at
	}
	return value
}

// verbatim returns the column of a token's value in the file, or 0 if the file has it in another form.
func verbatim(t *token.Token) int {
	quoted := t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	switch {
	case !strings.Contains(t.Origin, t.Value):
		return 0
	case quoted:
		return t.Position.Column + 1
	default:
		return t.Position.Column
	}
}

// within returns the spot of an offset in the text of n.
func (n *node) within(offset int) spot {
	if n.verbatim == 0 {
		return n.spot
	}
	if offset < n.bytes {
		n.bytes, n.runes = 0, 0
	}
	n.runes += utf8.RuneCountInString(n.text[n.bytes:offset])
	n.bytes = offset
	return spot{n.line, n.verbatim + n.runes}
}

// count adds n to the number of nodes read, which is bounded.
func (t *tree) count(at spot, n int) {
	if t.nodes += n; t.nodes > maxNodes && !t.full {
		t.full = true
		t.add(at, "aliases make the file too large")
	}
}

// table sets at to a table. A key of the table takes precedence over the same key of a merged table.
func (t *tree) table(at *node, values []*ast.MappingValueNode) {
	at.kind = aTable
	var merged []*node
	for _, v := range values {
		value := t.node(v.Value)
		if v.Key.IsMergeKey() {
			merged = append(merged, value)
			continue
		}
		if _, ok := v.Key.(*ast.MappingKeyNode); ok {
			t.add(spotOf(v.Key), "a key must be a plain text")
			continue
		}
		key := t.node(v.Key)
		if len(key.text) > maxText {
			t.add(key.spot, "this key has %d bytes, want at most %d", len(key.text), maxText)
			continue
		}
		at.table = append(at.table, field{key, value})
		at.size += key.size + value.size
	}
	known := make(map[string]bool, len(at.table))
	for _, f := range at.table {
		known[f.key.text] = true
	}
	for _, m := range merged {
		t.merge(at, m, known)
	}
}

// merge adds the fields of from whose keys at does not have.
func (t *tree) merge(at, from *node, known map[string]bool) {
	if t.count(from.spot, from.size); t.full {
		return
	}
	if from.kind == aList {
		for _, item := range from.list {
			if item.kind != aTable {
				t.add(item.spot, "<< wants a table or a list of tables, got %s", item.kind)
				continue
			}
			t.merge(at, item, known)
		}
		return
	}
	if from.kind != aTable {
		t.add(from.spot, "<< wants a table or a list of tables, got %s", from.kind)
		return
	}
	for _, f := range from.table {
		if !known[f.key.text] {
			at.table = append(at.table, f)
			at.size += f.key.size + f.value.size
		}
	}
	for _, f := range from.table {
		known[f.key.text] = true
	}
}
