package spillgate_test

import (
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
)

var namedFile = regexp.MustCompile("`([a-z/_]+(?:\\.go)?)`")

// TestArchitectureNamesFilesThatExist checks the files that a request passes through.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	names := namedFile.FindAllStringSubmatch(readText(t, "docs/architecture.md"), -1)
	for _, name := range names {
		expect.NoError(t, expect.ErrorOf(os.Stat(name[1])), "Stat")
	}
	expect.AtLeast(t, len(names), 12, "names of files (of every step)")
}

// TestPackageCommentNamesFilesThatExist checks the files that the package comment of core tells readers to open.
func TestPackageCommentNamesFilesThatExist(t *testing.T) {
	_, text, _ := strings.Cut(readText(t, "core/doc.go"), "# Reading the code")
	names := regexp.MustCompile(`\b[a-z_]+\.go\b`).FindAllString(text, -1)
	for _, name := range names {
		expect.NoError(t, expect.ErrorOf(os.Stat("core/"+name)), "Stat")
	}
	expect.AtLeast(t, len(names), 5, "names of files (of every step)")
}

// TestProgramsOfPackageComments checks that the first program in each package comment is also an example, so that the compiler checks it.
func TestProgramsOfPackageComments(t *testing.T) {
	examples := compiledSource(t)
	for _, file := range []string{"doc.go", "core/doc.go"} {
		program := programIn(readText(t, file))
		expect.NoError(t, expect.ErrorOf(parser.ParseFile(token.NewFileSet(), file, program, parser.AllErrors)), "%s", file)
		_, body, ok := strings.Cut(program, "func main() {")
		body = squeeze(strings.TrimSuffix(strings.TrimSpace(body), "}"))
		expect.True(t, ok && strings.Contains(examples, body), "%s: no example has the body of its program:\n%s", file, body)
	}
}

// programIn returns the first indented block of a package comment.
func programIn(source string) string {
	var program strings.Builder
	for _, line := range strings.Split(source, "\n") {
		switch code, ok := strings.CutPrefix(line, "//\t"); {
		case ok:
			program.WriteString(code + "\n")
		case line == "//" && program.Len() > 0:
			program.WriteString("\n")
		case program.Len() > 0:
			return program.String()
		}
	}
	return program.String()
}
