package rulefile

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The bounds of a file. Within them no file takes long to read or exhausts the stack.
const (
	maxBytes  = 1 << 20
	maxTokens = 200_000
	maxDepth  = 100     // of structure that begins on one line, or of brackets
	maxColumn = 500     // where a line begins, which bounds nesting by indentation
	maxNodes  = 500_000 // after aliases were replaced
)

// parseTree returns the only document of src, or nil after a mistake.
func parseTree(src string, m *mistakes) (root *node) {
	defer func() {
		if v := recover(); v != nil {
			m.add(spot{1, 1}, "this is not YAML: %v", v)
			root = nil
		}
	}()
	if len(src) > maxBytes {
		m.add(spot{1, 1}, "the file has %d bytes, at most %d are read", len(src), maxBytes)
		return nil
	}
	tokens := lexer.Tokenize(src)
	if !boundedNesting(tokens, m) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		addSyntaxError(err, m)
		return nil
	}
	t := tree{mistakes: m, anchors: make(map[string]*node)}
	for _, doc := range file.Docs {
		if _, directive := doc.Body.(*ast.DirectiveNode); doc.Body == nil || directive {
			continue
		}
		if root != nil {
			m.add(spotOf(doc.Body), "there is a second document; a file has one")
			break
		}
		root = t.node(doc.Body)
	}
	if root == nil && len(m.found) == 0 {
		m.add(spot{1, 1}, "there are no rules")
	}
	return root
}

func addSyntaxError(err error, m *mistakes) {
	at, text := spot{1, 1}, err.Error()
	if wrong, ok := errors.AsType[yaml.Error](err); ok {
		text = wrong.GetMessage()
		if t := wrong.GetToken(); t != nil && t.Position != nil {
			at = spot{t.Position.Line, t.Position.Column}
		}
	}
	m.add(at, "this is not YAML: %s", text)
}

// boundedNesting reports whether tokens can be parsed without exhausting the stack.
func boundedNesting(tokens token.Tokens, m *mistakes) bool {
	if len(tokens) > maxTokens {
		m.add(spot{1, 1}, "the file has too many words")
		return false
	}
	line, onLine, brackets := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
			if t.Position.Column > maxColumn {
				m.add(spot{line, t.Position.Column}, "this line is indented too far")
				return false
			}
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.MappingKeyType, token.AnchorType, token.TagType:
			onLine++
		case token.SequenceEntryType, token.MappingValueType:
			if brackets == 0 {
				onLine++
			}
		}
		if brackets > maxDepth || onLine > maxDepth {
			m.add(spot{line, t.Position.Column}, "this is nested too deep")
			return false
		}
	}
	return true
}
