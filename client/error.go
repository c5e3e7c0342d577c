package client

import (
	"fmt"
	"time"
)

// A LimitedError says that a request was not sent, because its turn would come after Transport.MaxWait or after the
// deadline of its context.
type LimitedError struct {
	Until  time.Time // when the limit admits a request again; the time of the error if the server has not said
	Status int       // status of the response that announced Until; 0 if the request waited for the first response
	Policy string    // the resource or policy that is used up, or a hash if its name has over 128 bytes; empty if it has no name
}

// Error returns a text that contains no part of the request.
func (e *LimitedError) Error() string {
	if e.Status == 0 {
		return "spillgate: not sent: waiting for the responses to other requests takes too long"
	}
	name := "rate limit"
	if e.Policy != "" {
		name = fmt.Sprintf("rate limit %q", e.Policy)
	}
	return fmt.Sprintf("spillgate: not sent: waiting for the %s until %s takes too long (announced by a response of status %d)",
		name, e.Until.UTC().Format(time.RFC3339), e.Status)
}
