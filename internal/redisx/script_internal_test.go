package redisx

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	topLocal    = regexp.MustCompile(`(?m)^local (?:function )?([A-Za-z_, ]+)`)
	comment     = regexp.MustCompile(`--[^\n]*`)
	textLiteral = regexp.MustCompile(`'[^']*'`)
	name        = regexp.MustCompile(`[A-Za-z_][A-Za-z_0-9]*`)
	field       = regexp.MustCompile(`[.:][A-Za-z_][A-Za-z_0-9]*`)
)

// scriptFiles are all Lua files, in the order in which scripts have them.
var scriptFiles = []string{
	"number", "word", "reply", "limit", "expiry", "plain", "plainone", "plainhold", "decidehold", "plainsettle", "leaseone", "lows", "plainlease", "tokenbucket", "fixedwindow", "block", "sliding", "inflight", "hold",
	"pair", "decide", "refund", "lease", "settleany", "jobs", "reset",
}

// TestEachLuaFileSaysWhatItUses checks the first lines of each file: "Uses a, b (file), ...".
func TestEachLuaFileSaysWhatItUses(t *testing.T) {
	definedIn := definitions()
	for _, file := range scriptFiles {
		text := read(file)
		header, _, _ := strings.Cut(strings.ReplaceAll(text, "\n-- ", " "), "\n")
		_, uses, ok := strings.Cut(header, "Uses ")
		if !ok {
			t.Errorf("%s.lua does not begin with what it uses", file)
		}
		uses, _, _ = strings.Cut(uses, ". ")
		said := make(map[string]bool)
		for _, n := range name.FindAllString(uses, -1) {
			said[n] = true
		}
		used := usedNames(file, definedIn)
		for _, n := range slices.Sorted(maps.Keys(used)) {
			if !said[n] {
				t.Errorf("%s.lua does not say that it uses %s (%s)", file, n, definedIn[n])
			}
		}
		for n := range said {
			if from := definedIn[n]; from != "" && !used[n] && !slices.Contains(scriptFiles, n) {
				t.Errorf("%s.lua says that it uses %s", file, n)
			}
		}
	}
}

// definitions returns the file that defines each name at the top level.
func definitions() map[string]string {
	definedIn := make(map[string]string)
	for _, file := range scriptFiles {
		if file == "jobs" || file == "reset" {
			continue
		}
		for _, m := range topLocal.FindAllStringSubmatch(read(file), -1) {
			for _, n := range name.FindAllString(m[1], -1) {
				definedIn[n] = file
			}
		}
	}
	delete(definedIn, "_")
	return definedIn
}

// usedNames returns the names that a file uses and another file defines.
func usedNames(file string, definedIn map[string]string) map[string]bool {
	code := comment.ReplaceAllString(read(file), "")
	code = textLiteral.ReplaceAllString(code, "")
	code = field.ReplaceAllString(code, "")
	used := make(map[string]bool)
	for _, n := range name.FindAllString(code, -1) {
		own := regexp.MustCompile(`local [a-zA-Z_, ]*\b` + n + `\b|function[^\n]*\([^)]*\b` + n + `\b`)
		if from := definedIn[n]; from != "" && from != file && !own.MatchString(code) {
			all := regexp.MustCompile(`\b`+n+`\b`).FindAllString(code, -1)
			asKeys := regexp.MustCompile(`[{,]\s*`+n+` =`).FindAllString(code, -1)
			used[n] = len(all) > len(asKeys)
		}
	}
	return used
}

func TestLuaFilesAreShort(t *testing.T) {
	for _, file := range scriptFiles {
		if n := strings.Count(read(file), "\n"); n > 220 {
			t.Errorf("%s.lua has %d lines", file, n)
		}
	}
}
