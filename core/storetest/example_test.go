package storetest_test

import (
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
)

// MyStore is a store of your own. This one keeps its state in the process.
type MyStore struct{ core.MemoryStore }

// A test of a package that has a store. docs/testing.md has a whole one.
func ExampleRun() {
	TestMyStore := func(t *testing.T) {
		storetest.Run(t, storetest.Harness{New: func(*testing.T) core.Store { return new(MyStore) }})
	}
	_ = TestMyStore
}
