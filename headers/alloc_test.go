package headers_test

import (
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
)

// TestAllocations bounds the allocations of writers. The map of h is allocated before.
func TestAllocations(t *testing.T) {
	for _, row := range []struct {
		name  string
		write headers.Writer
		most  float64
	}{
		{"GitHub", headers.GitHub, 2},
		{"IETF", headers.IETF, 2},
		{"Custom zero", headers.Custom{}.Write, 2},
		{"Custom prefix", headers.Custom{Prefix: "X-App"}.Write, 2},
	} {
		h := http.Header{}
		for _, s := range scenarios {
			if s.name != "allowed" && s.name != "denied" && s.name != "two-limits" {
				continue
			}
			row.write(h, s.d)
			got := testing.AllocsPerRun(100, func() { row.write(h, s.d) })
			expect.AtMost(t, got, row.most, "%s, %s: allocations", row.name, s.name)
		}
	}
}
