// Package faults injects faults into a real Redis and checks that limiters keep enforcing. It uses the clients of go-redis with
// the default options.
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
