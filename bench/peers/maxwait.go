//go:build !before

package peers

import (
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxWait lets the requests of rule wait for their turn.
func maxWait(rule *core.Rule) { rule.MaxWait = time.Minute }
