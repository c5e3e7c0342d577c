package client

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

const (
	// maxKept bounds what is read of the body of a refusal, so that its connection can be used again.
	maxKept = 64 << 10

	// keepTime bounds how long reading it may take.
	keepTime = time.Second
)

// keep reads the body of resp ahead, up to maxKept bytes, and puts what it has read back. So the connection is free if
// that is all, and resp can still be returned intact. A body that takes longer than keepTime is cut off.
func keep(resp *http.Response) {
	body := resp.Body
	slow := time.AfterFunc(keepTime, func() { body.Close() })
	defer slow.Stop()
	var start bytes.Buffer
	n, err := io.CopyN(&start, body, maxKept)
	switch {
	case err == io.EOF:
		body.Close()
		resp.Body = io.NopCloser(&start)
	case n > 0 || err != nil:
		resp.Body = kept{io.MultiReader(&start, body), body}
	}
}

// kept is a body whose start was read.
type kept struct {
	io.Reader
	io.Closer
}
