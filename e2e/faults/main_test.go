package faults

import (
	"os"
	"testing"

	"github.com/spillgate/spillgate/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(floodOf); url != "" {
		flood(url)
		return
	}
	redistest.DropLog()
	goleak.VerifyTestMain(m)
}
