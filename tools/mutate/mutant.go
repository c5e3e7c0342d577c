package main

import (
	"fmt"
	"slices"
	"strings"
)

// A mutant is a target with one edit.
type mutant struct {
	target
	text  string // of the file, with the edit
	line  int
	where string // the line before the edit
	edit  string // a description of the edit
}

// String describes m without a line number, so that the description stays the same while the file changes elsewhere.
func (m mutant) String() string { return fmt.Sprintf("%s: %s: %s", m.file, m.where, m.edit) }

// An edit replaces some bytes of a file.
type edit struct {
	from, to int // in bytes
	instead  string
}

// swaps lists the tokens that replace a token.
var swaps = map[string][]string{
	"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"}, "==": {"!="}, "!=": {"=="},
	"&&": {"||"}, "||": {"&&"}, "+": {"-"}, "-": {"+"}, "min": {"max"}, "max": {"min"},
	"~=": {"=="}, "and": {"or"}, "or": {"and"}, "floorDiv": {"ceilDiv"}, "ceilDiv": {"floorDiv"},
}

// mutantsOf returns the mutants of a target with this text.
func mutantsOf(t target, text string) (all []mutant, err error) {
	var edits []edit
	if strings.HasSuffix(t.file, ".lua") {
		edits = luaEdits(text)
	} else if edits, err = goEdits(text); err != nil {
		return nil, err
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	seen := make(map[string]int)
	for _, e := range edits {
		m := mutant{target: t, text: text[:e.from] + e.instead + text[e.to:], line: 1 + strings.Count(text[:e.from], "\n")}
		m.where = strings.TrimSpace(lineAt(text, e.from))
		was, _, more := strings.Cut(text[e.from:e.to], "\n")
		if more {
			was += " .."
		}
		m.edit = fmt.Sprintf("%s becomes %s", was, e.instead)
		if e.instead == "" {
			m.edit = "drop " + was
		}
		if seen[m.String()]++; seen[m.String()] > 1 { // not the first with this description
			m.edit += fmt.Sprintf(" (%d)", seen[m.String()])
		}
		all = append(all, m)
	}
	return all, nil
}

func lineAt(text string, i int) string {
	line, _, _ := strings.Cut(text[i:], "\n")
	return text[strings.LastIndexByte(text[:i], '\n')+1:i] + line
}
