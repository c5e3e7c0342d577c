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

// keep buffers the body of resp, up to maxKept bytes, and sets one that reads the same. A body that ends within them frees the
// connection, and resp can still be returned intact. A body that takes longer than keepTime is cut off.
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
