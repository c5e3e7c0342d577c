package core

import (
	"testing"
	"unsafe"
)

// TestGuardedIsSmall checks the size up to which the runtime keeps what it knows of the pointers apart from the object.
func TestGuardedIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(guarded{}); size > 512 {
		t.Errorf("a request takes %d bytes, want at most 512", size)
	}
}
