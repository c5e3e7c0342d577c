package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// maxKept bounds how much of the body of a denial is read, so that its connection can be used again.
	maxKept = 64 << 10

	// keepTime bounds how long reading it may take.
	keepTime = time.Second
)

// keep reads up to maxKept bytes of the body of resp, and sets a body that returns the same bytes. If the whole body
// fits, the connection is free, and resp can still be returned intact. keep cuts off a body that takes longer than
// keepTime.
func keep(resp *http.Response) {
	body := resp.Body
	slow := time.AfterFunc(keepTime, func() { body.Close() })
	defer slow.Stop()
	var start bytes.Buffer
	if _, err := io.CopyN(&start, body, maxKept); errors.Is(err, io.EOF) {
		body.Close()
		resp.Body = io.NopCloser(&start)
		return
	}
	resp.Body = kept{io.MultiReader(&start, body), body}
}

// kept is a body whose start is buffered.
type kept struct {
	io.Reader
	io.Closer
}
