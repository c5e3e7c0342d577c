package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/must"
)

// A line is what the script prints: a denial, or the text of a call's result.
type line struct {
	Code    int
	Message string
	Data    struct {
		RetryAfterSeconds int
		Rules             []string
	}
}

// TestTypeScript checks that the client of the TypeScript SDK is denied, waits and succeeds.
func TestTypeScript(t *testing.T) {
	dir := wire.Node(t, filepath.Join("testdata", "typescript"))
	for name, server := range map[string]func(*testing.T) string{
		"with sessions": func(t *testing.T) string { return serve(t, newServer(perTool()), false).URL },
		"stateless":     func(t *testing.T) string { return serve(t, newServer(perTool()), true).URL },
		"stdio":         func(*testing.T) string { return os.Args[0] },
	} {
		t.Run(name, func(t *testing.T) {
			out := must.Get(wire.Run(t, dir, []string{stdio + "=1"}, "node", "drive.mjs", server(t)))(t)
			got := wire.Decode[line](t, out)
			must.True(t, len(got) == 2 && got[1].Message == "found", "the client prints\n%s", out)
			d := got[0]
			if d.Code != -32029 || d.Data.RetryAfterSeconds < 1 || d.Data.RetryAfterSeconds > 2 || !slices.Equal(d.Data.Rules, []string{"search"}) ||
				!strings.Contains(d.Message, fmt.Sprintf("rate limit exceeded: retry in %d s", d.Data.RetryAfterSeconds)) {
				t.Errorf("the client gets %+v", d)
			}
		})
	}
}
