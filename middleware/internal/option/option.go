// Package option applies the options of adapters.
package option

import (
	"fmt"

	"github.com/spillgate/spillgate/core"
)

// Apply applies opts to o. It panics if one of them is nil.
func Apply[T any, O ~func(*T)](o *T, opts []O) {
	for i, opt := range opts {
		if opt == nil {
			panic(fmt.Errorf("spillgate: %w: option %d of %d: option is nil; leave it out", core.ErrInvalid, i+1, len(opts)))
		}
		opt(o)
	}
}
