package client

import (
	"fmt"
	"net/http"
	"time"
)

// A LimitedError says that a request was not sent, because its turn would come after Transport.MaxWait or after the
// deadline of its context.
type LimitedError struct {
	Until  time.Time // when the limit admits a request again; the time of the error if the server has not said
	Status int       // of the response that announced it; 0 if there was none
	Policy string    // the resource or policy that is used up; empty if it has no name
}

// Error contains no part of the request.
func (e *LimitedError) Error() string {
	name := "rate limit"
	if e.Policy != "" {
		name = fmt.Sprintf("rate limit %q", e.Policy)
	}
	text := "spillgate: not sent: waiting for " + name + " until " + e.Until.UTC().Format(time.RFC3339) + " takes too long"
	if e.Status != 0 {
		text += fmt.Sprintf(" (announced by status %d %s)", e.Status, http.StatusText(e.Status))
	}
	return text
}
