// Package linear checks that the stores are linearizable: the results of concurrent callers can be explained by calls that take
// effect one after the other, each at some instant between its begin and its end. Porcupine
// (https://github.com/anishathalye/porcupine) searches for the explanation; internal/oracle defines what one call does.
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
