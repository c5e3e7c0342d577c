package headers_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/must"
)

var update = flag.Bool("update", false, "rewrite testdata")

var writers = []struct {
	name  string
	write headers.Writer
}{
	{"GitHub", headers.GitHub},
	{"IETF", headers.IETF},
	{"Custom zero", headers.Custom{}.Write},
	{"Custom delta", headers.Custom{Prefix: "x-app-ratelimit", Reset: headers.DeltaSeconds}.Write},
	{"Custom RFC3339", headers.Custom{Prefix: "App", Reset: headers.RFC3339}.Write},
	{"RetryAfter", headers.RetryAfter},
	{"None", headers.None},
}

// TestGolden compares every byte that the writers set. Review the differences before you update them: clients parse
// these bytes.
func TestGolden(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			got := []byte(s.why + "\n")
			for _, w := range writers {
				h := http.Header{}
				w.write(h, s.d)
				got = fmt.Appendf(got, "\n%s\n%s", w.name, dump(h))
			}
			path := filepath.Join("testdata", s.name+".golden")
			if *update {
				must.Do(t, os.WriteFile(path, got, 0o644))
			}
			want := must.Get(os.ReadFile(path))(t)
			if string(got) != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// dump returns the fields of h, sorted, one value per line.
func dump(h http.Header) string {
	var lines []string
	for name, values := range h {
		for _, v := range values {
			lines = append(lines, "  "+name+": "+v+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
