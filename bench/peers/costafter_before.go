//go:build before

package peers

import "github.com/spillgate/spillgate/core"

// costAfter has rule hold the cost of a request until its response has ended.
func costAfter(rule *core.Rule) { rule.Final = core.Failures }
