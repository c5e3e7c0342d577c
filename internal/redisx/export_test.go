package redisx

import (
	"strings"
	"testing"
)

// SetBlockSize has scripts keep blocks of so many entries until the test ends.
func SetBlockSize(t *testing.T, entries string) {
	take, refund := takeScript, refundScript
	t.Cleanup(func() { takeScript, refundScript = take, refund })
	for _, s := range []*script{&takeScript, &refundScript} {
		source := strings.Replace(s.source, "local maxEntries = 64", "local maxEntries = "+entries, 1)
		if source == s.source {
			t.Fatal("the scripts do not say how large blocks are")
		}
		*s = newScript(source)
	}
}
