//go:build before

package peers

import "github.com/spillgate/spillgate/core"

// maxWait does nothing: there was no MaxWait.
func maxWait(*core.Rule) {}
