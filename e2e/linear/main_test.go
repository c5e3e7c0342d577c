// Package linear checks that the stores are linearizable: whatever several callers saw at once can be explained by their
// calls taking effect one after the other, each at some moment between its begin and its end. The explanation is
// searched for by porcupine (https://github.com/anishathalye/porcupine); what one call does is up to internal/oracle.
package linear

import (
	"testing"

	"github.com/spillgate/spillgate/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.DropLog()
	goleak.VerifyTestMain(m)
}
