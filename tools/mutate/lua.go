package main

import (
	"regexp"
	"strings"
)

var (
	luaIgnored    = regexp.MustCompile(`--[^\n]*|'(?:[^'\\\n]|\\.)*'`) // comments and strings
	luaToken      = regexp.MustCompile(`[A-Za-z_][\w.]*|[<>=~]=|\.\.|[<>+-]`)
	luaStatement  = regexp.MustCompile(`(?m)^ +((?:return|[a-zA-Z][\w.,\[\] ]* =|call\(|[a-z]\w*\().*)$`)
	luaUnfinished = regexp.MustCompile(`^(local|for|if|while)\b|\bfunction\b|(,|\band|\bor)$`)
)

// luaEdits returns the edits of a Lua file: swapped operators and dropped statements of one line.
func luaEdits(text string) (edits []edit) {
	code := luaIgnored.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat(" ", len(s)) })
	for _, at := range luaToken.FindAllStringIndex(code, -1) {
		for _, instead := range swaps[code[at[0]:at[1]]] {
			edits = append(edits, edit{at[0], at[1], strings.Replace(instead, "!=", "~=", 1)})
		}
	}
	for _, at := range luaStatement.FindAllStringSubmatchIndex(code, -1) {
		s := strings.TrimRight(code[at[2]:at[3]], " ")
		if !luaUnfinished.MatchString(s) && strings.Count(s, "(") == strings.Count(s, ")") && strings.Count(s, "{") == strings.Count(s, "}") {
			edits = append(edits, edit{at[2], at[2] + len(s), ""})
		}
	}
	return edits
}
