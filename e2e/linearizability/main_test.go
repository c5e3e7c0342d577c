package linearizability

import (
	"testing"

	"github.com/spillgate/spillgate/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.DropLog()
	goleak.VerifyTestMain(m)
}
