package respond

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// Headers sets the fields that describe g's decision: by write or, if that is nil, by headers.GitHub. Other writers may keep
// the decision, so it is made for headers.GitHub separately, on the stack.
func Headers(h http.Header, g *core.Guard, write headers.Writer) {
	if write == nil {
		headers.GitHub(h, g.Decision())
	} else {
		write(h, g.Decision())
	}
}
