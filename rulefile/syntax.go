package rulefile

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parseTree returns the only document of src, or nil after a mistake.
func parseTree(src string, m *mistakes) (root *node) {
	defer func() {
		if v := recover(); v != nil {
			m.add(spot{1, 1}, "this is not YAML: %v", v)
			root = nil
		}
	}()
	switch {
	case len(src) > maxBytes:
		m.add(spot{1, 1}, "the file has %d bytes, at most %d are read%s", len(src), maxBytes, exceptPlain)
		return nil
	}
	if strings.HasPrefix(src, "\xff\xfe") || strings.HasPrefix(src, "\xfe\xff") || strings.IndexByte(src[:min(2, len(src))], 0) >= 0 {
		m.add(spot{1, 1}, "the file is UTF-16, want UTF-8")
		return nil
	}
	tokens := scan(src, m)
	if len(m.found) > 0 || !parsable(tokens, m) {
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
			m.add(spotOf(doc.Body), "a file has one document; this is the second")
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
	var wrong yaml.Error
	if !errors.As(err, &wrong) {
		m.add(spot{1, 1}, "this is not YAML: %v", err)
		return
	}
	at := spot{1, 1}
	if t := wrong.GetToken(); t != nil && t.Position != nil {
		at = spot{t.Position.Line, t.Position.Column}
	}
	message := wrong.GetMessage() // Error prints the file
	if strings.Contains(message, "'\t'") {
		message = "a tab cannot indent a line; use spaces"
	}
	m.add(at, "this is not YAML: %s", message)
}
