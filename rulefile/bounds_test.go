package rulefile_test

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
	"github.com/spillgate/spillgate/rulefile"
)

// joined returns what piece returns for each number below n.
func joined(n int, piece func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(piece(i))
	}
	return b.String()
}

// repeated returns a file of about n bytes: copies of unit, with their numbers in place of %d, between begin and end.
func repeated(n int, begin, unit, end string) string {
	var b strings.Builder
	b.WriteString(begin)
	for i := 0; b.Len()+len(unit)+len(end)+4 < n; i++ {
		b.WriteString(strings.Replace(unit, "%d", strconv.Itoa(i), 1))
	}
	return b.String() + end
}

// TestReadingIsLinear checks that files of up to 1 MB, which would exhaust the stack or the memory of the parser, or keep it, the
// scanner or the reader busy for minutes, are read or rejected within the bound on memory, with a short error. It does not measure
// time: unbounded, these files take from seconds to hours, or all memory.
func TestReadingIsLinear(t *testing.T) {
	testpass.Thorough(t)
	for _, tt := range []struct{ why, src, want string }{ // want is why the file is rejected, or part of the last mistake, or empty if it is good
		{"rules in one line", repeated(150_000, "rules: [", "{name: a%d, match: /, key: ip, limits: 1/s}, ", "]"), ""},
		{"rules in JSON", repeated(150_000, `{"rules": [`, `{"name": "a%d", "match": "/", "key": "ip", "limits": "1/s"}, `, "]}"), ""},
		{"rules in lines", repeated(300_000, "rules:\n", "  - name: a%d\n    match: /\n    key: ip\n    limits: 1/s\n", ""), ""},
		{"mistakes in one line", repeated(150_000, "rules: [", "{name: a%d, kye: ip, limits: 1}, ", "]"), "more mistakes"},
		{"the same mistake in one line", repeated(100_000, "rules: [", "{},", "]"), "more mistakes"},
		{"rules that core rejects", repeated(200_000, "rules: [", "{name: a%d, key: ip, limits: 1/s, lease: 9m}, ", "]"), "more mistakes"},
		{"patterns that core rejects", repeated(100_000, "rules: [{key: ip, limits: 1/s, match: [", "/a%d//b,", "/a]}]"), "more mistakes"},
		{"patterns to compare", repeated(200_000, "rules:\n- key: ip\n  limits: 1/s\n  match:\n", "  - /a%d/\n", ""), "there are too many patterns"},
		{"methods to compare", repeated(200_000, "rules:\n- key: ip\n  limits: 1/s\n  match:\n", "  - M%d /\n", ""), "there are too many patterns"},
		{"unknown fields", repeated(100_000, "rules: [{", "f%d: 1,", "}]"), "more mistakes"},
		{"unknown functions",
			repeated(10_000, "funcs: [", "f%d,", "]\n") + repeated(200_000, "rules:\n", "- {key: g%d, limits: 1/s, cost: h}\n", ""), "more mistakes"},
		{"too many functions", repeated(200_000, "funcs: [", "f%d,", "]\nrules: 1\n"), "more mistakes"},
		{"limits", repeated(1<<20, `rules: [{key: ip, limits: "`, "1/s,", `1/s"}]`), "this text has 1048"},
		{"limits in a list", repeated(100_000, "rules: [{key: ip, limits: [", "a,", "1/s]}]"), "more than 32 limits"},
		{"a key func with many arguments", repeated(1<<20, `rules: [{limits: 1/s, key: "first(`, "user,", `ip)"}]`), "this text has 1048"},
		{"many key funcs with many arguments",
			"x-a: &a first(" + strings.Repeat("user,", 1600) + "ip)\n" + repeated(200_000, "rules:\n", "- {name: a%d, key: *a, limits: 1/s}\n", ""),
			"aliases make the file too large"},
		{"a long text for many limits",
			"x-a: &a " + strings.Repeat("1/s,", 10_000) + "\n" + repeated(100_000, "rules:\n", "- {key: ip, limits: *a}\n", ""), "this text has 40000 bytes"},
		{"merged tables",
			repeated(50_000, "x-a: &a {", "k%d: 1,", "}\n") + repeated(50_000, "x-b: {<<: [", "*a,", "*a]}\n"), "aliases make the file too large"},
		{"missing values in braces", repeated(50_000, "rules: {", "a,", "a}"), "this is too large"},
		{"missing values behind colons", repeated(100_000, "rules: {", "a: ,", "a: }"), "this is too large"},
		{"missing values of a list", repeated(50_000, "rules:\n", "-\n", ""), "this is too large"},
		{"missing values of a table", repeated(100_000, "", "a%d:\n", ""), "this is too large"},
		{"a table of many lines", repeated(100_000, "", "a%d: 1\n", ""), "this is too large"},
		{"a table of many lines in brackets", repeated(100_000, "x: [\n", "a: 1\n", "]"), "this is too large"},
		{"explicit keys", repeated(100_000, "", "? a\n", ""), "this is too large"},
		{"keys behind anchors", joined(5000, func(i int) string { return "&" + strings.Repeat("a", 1+i%100) + " x: 1\n" }), "this is too large"},
		{"a long key", strings.Repeat("k", 1<<19) + ": [" + strings.Repeat("a,", 20_000) + "]", "this is too large"},
		{"long keys in each other",
			joined(100, func(i int) string { return strings.Repeat(" ", i) + strings.Repeat("k", 2000) + ":\n" }) +
				strings.Repeat(" ", 100) + "[" + strings.Repeat("a,", 20_000) + "]\n", "this is too large"},
		{"anchors in lines", repeated(50_000, "a:\n", " &a\n", ""), "nested too deep"},
		{"tags in lines", repeated(50_000, "a:\n", " !a\n", ""), "nested too deep"},
		{"tags of items", repeated(100_000, "x:\n", "  - !a\n", ""), "tags such as !a are not understood"},
		{"documents", repeated(100_000, "", "---\na\n", ""), "a file has one document"},
		{"ends of documents", repeated(100_000, "", "a\n...\n", ""), "a file has one document"},
		{"brackets", strings.Repeat("[", 1<<20), "too many words"},
		{"reserved characters", "rules: " + strings.Repeat("@", 100_000), "reserved character"},
		{"closing brackets", strings.Repeat("]", 100_000), "this is not YAML"},
		{"quotes", strings.Repeat(`"`, 100_000), "this is not YAML"},
		{"tabs in quotes", `rules: "` + strings.Repeat("a\t", 1<<18) + `"`, "too many tabs"},
		{"tabs in lines in quotes", `rules: "` + strings.Repeat(strings.Repeat("\t", 5000)+"a\n", 100) + `"`, "too many tabs"},
		{"a long file", strings.Repeat("#", 1<<20) + "\n", "the file has 1048577 bytes, at most 1048576 are read; overrides with one plain entry per line"},
		{"a very long file", strings.Repeat("#", 17<<20) + "\n", "the file has more than 16777216 bytes"},
		{"aliases in overrides",
			repeated(300_000, "rules:\n- key: ip\n  limits: &l 1/s\n  overrides:\n", "    ip:%d: *l\n", ""),
			"values that are missing; overrides with one plain entry per line"},
		{"many words", strings.Repeat("- a\n", 110_000), "too many words"},
		{"brackets in each other", "rules: " + strings.Repeat("[", 100_000), "nested too deep"},
		{"braces in each other", "rules: " + strings.Repeat("{a: ", 50_000), "nested too deep"},
		{"dashes", strings.Repeat("- ", 90_000), "nested too deep"},
		{"question marks", strings.Repeat("? ", 90_000), "nested too deep"},
		{"question marks in brackets", "[" + strings.Repeat("? ", 90_000), "nested too deep"},
		{"anchors in one line", "a: " + strings.Repeat("&a ", 90_000), "nested too deep"},
		{"tags in one line", "a: " + strings.Repeat("!a ", 90_000), "nested too deep"},
		{"indentation", joined(600, func(i int) string { return strings.Repeat(" ", i) + "a:\n" }), "indented too far"},
		{"aliases of aliases",
			"x-0: &a0 [1/s, 1/m]\n" +
				joined(30, func(i int) string { return fmt.Sprintf("x-%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i) }) + "rules: *a30\n", "aliases make the file too large"},
		{"a key in keys", "rules: [{limits: 1/s, key: " + strings.Repeat("first(", 1000) + "}]", "this key is nested too deep"},
		{"<", "rules: " + strings.Repeat("<", 1<<19), "too many tabs, blank lines or <"},
		{"blank lines", "rules: |\n" + strings.Repeat(" a\n", 1<<17) + strings.Repeat(" \n", 1<<17) + "b: 1\n", "too many tabs, blank lines"},
		{"blank lines behind CRLF",
			"rules: |\r\n" + strings.Repeat(" a\r\n", 1<<16) + strings.Repeat("\r\n", 1<<16) + "b: 1\r\n", "too many tabs, blank lines"},
		{"blank lines behind CR", "rules: |\r" + strings.Repeat(" a\r", 1<<16) + strings.Repeat("\r", 1<<16) + "b: 1\r", "too many tabs, blank lines"},
		{"an indentation of many digits", "rules: |" + strings.Repeat("0", 1<<19) + "1\n" + strings.Repeat(" a", 1<<17) + "\n", "number is too long"},
		{"a signed indentation of many digits", "rules: >-" + strings.Repeat("0", 1<<19) + "1\n" + strings.Repeat(" a", 1<<17) + "\n", "number is too long"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			src := []byte(tt.src)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := rulefile.Parse(src, program)
			text := fmt.Sprint(err)
			runtime.ReadMemStats(&after)
			expect.AtMost(t, (after.TotalAlloc-before.TotalAlloc)>>20, 200, "MB allocated at most")
			expect.AtMost(t, len(text), 200_000, "bytes of the error")
			expect.True(t, (err == nil) == (tt.want == "") && strings.Contains(text, tt.want),
				"got %.200s .. %.200s, want %q", text, text[max(0, len(text)-400):], tt.want)
		})
	}
}

func TestBoundsLeaveRoom(t *testing.T) {
	for why, src := range map[string]string{
		"blank lines":           "x-a: |\n  text\n\n" + strings.Repeat("\n", 200) + strings.Repeat("# a > b\n\n\n", 10_000) + "rules: [{key: ip, limits: 1/s}]\n",
		"tabs":                  "rules: [{key: ip, limits: 1/s}]" + strings.Repeat("\t", 200) + "# comment\n" + strings.Repeat("# comment\t\t\n", 10_000),
		"a number":              "x-a: |\n  >00000000000000000000\nrules: [{key: ip, limits: 1/s}]\n",
		"missing values":        "x-a: [" + strings.Repeat("{a, b: }, ", 500) + "]\nx-b:\n" + strings.Repeat("  -\n", 500) + "rules: [{key: ip, limits: 1/s}]\n",
		"a table of many lines": repeated(30_000, "x-a:\n", "  a%d: 1\n", "rules: [{key: ip, limits: 1/s}]\n"),
		"lists in each other":   "x-a: " + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "\nrules: [{key: ip, limits: 1/s}]\n",
		"functions":             repeated(5_000, "x-a: [", "f%d, ", "]\nrules: [{key: ip, limits: 1/s}]\n"),
		"patterns":              repeated(200_000, "rules:\n- key: ip\n  limits: 1/s\n  match:\n", "  - POST /v1/{tenant}/login%d\n", ""),
	} {
		expect.NoError(t, expect.ErrorOf(rulefile.Parse([]byte(src), program)), "%s", why)
	}
}

// TestFirstMistakesAreReported checks that the first 100 mistakes are reported in order, with the number of further ones.
func TestFirstMistakesAreReported(t *testing.T) {
	for n, want := range map[int]string{99: "", 100: "", 101: "there is 1 more mistake", 102: "there are 2 more mistakes", 5000: "there are 4900 more mistakes"} {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range n - 1 {
			fmt.Fprintf(&b, "- {name: a%d, match: /, key: ip, limits: 1/s, lease: 9m}\n", i) // this mistake is found last
		}
		b.WriteString("- {name: z, key: ip, limits: bad}\n")
		_, err := rulefile.Parse([]byte(b.String()), program)
		var mistakes rulefile.Mistakes
		must.True(t, errors.As(err, &mistakes) && len(mistakes) == min(n, 101) && mistakes.Count() == n, "%d mistakes are reported as %d by %d", n, mistakes.Count(), len(mistakes))
		for i, m := range mistakes[:min(n, 100)] {
			expect.True(t, m.Line == i+2 && !strings.Contains(m.Text, "more mistake"),
				"of %d, mistake %d is %d:%d: %s", n, i+1, m.Line, m.Column, m.Text)
		}
		if last := mistakes[len(mistakes)-1]; want != "" && (last.Text != want || last.Line != 102) {
			t.Errorf("the last is %d: %s, want 102: %s", last.Line, last.Text, want)
		}
	}
}

// TestSourceOfAMistake checks the quoted line and its caret for long lines.
func TestSourceOfAMistake(t *testing.T) {
	for _, column := range []int{1, 139, 140, 141, 142, 500, 999, 1000, 1001, 5000} {
		m := rulefile.Mistake{File: "f", Line: 1, Column: column, Text: "t", Source: strings.Repeat("é\xff", 499) + "\tz"}
		lines := strings.Split(m.Error(), "\n")
		source, caret := []rune(lines[1]), []rune(lines[2])
		must.True(t, len(lines) == 3 && len(source) <= 8+160 && len(caret) >= 9, "column %d:\n%s", column, m.Error())
		at, line := len(caret)-1, []rune(strings.ReplaceAll(m.Source, "\t", " "))
		if column > len(line) {
			expect.Equal(t, at, len(source), "column %d: the caret is not behind the line:\n%s", column, m.Error())
			continue
		}
		expect.Equal(t, source[at], line[column-1], "column %d: the caret is below", column)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	for _, tt := range badFiles {
		f.Add(tt.Text)
	}
	f.Fuzz(func(t *testing.T, src string) {
		file, err := rulefile.Parse([]byte(src), program)
		if err == nil {
			_, err := core.New(file.Rules)
			must.True(t, err == nil, "%q: core.New does not take the rules: %v", src, err)
			return
		}
		var mistakes rulefile.Mistakes
		must.True(t, errors.As(err, &mistakes) && len(mistakes) != 0 && file == nil, "%q: got %v, %v", src, file, err)
		for _, m := range mistakes {
			must.True(t, m.Line >= 1 && m.Column >= 1 && m.Text != "" && strings.Count(m.Error(), "\n") == 2, "%q: got %+v", src, m)
		}
	})
}
