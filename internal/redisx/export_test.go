package redisx

import (
	"strings"
	"testing"
)

// SetBlockSize has scripts keep blocks of so many entries until the test ends.
func SetBlockSize(t *testing.T, entries string) {
	take, refund := takeScript, settleScript
	t.Cleanup(func() { takeScript, settleScript = take, refund })
	for _, s := range []*script{&takeScript, &settleScript} {
		source := strings.Replace(s.source, "local maxEntries = 64", "local maxEntries = "+entries, 1)
		if source == s.source {
			t.Fatal("the scripts do not say how large blocks are")
		}
		*s = newScript(source)
	}
}
