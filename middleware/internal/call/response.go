package call

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A Response finds the status in the response to a call. A nil Response belongs to a request whose status is the HTTP
// status. It is safe for concurrent use, because a handler's goroutines may still write after the handler has returned.
type Response struct {
	w        http.ResponseWriter
	protocol Protocol

	mu   sync.Mutex
	sent http.Header // once the response has begun
	body bool        // the body is not empty
	quad []byte      // of base64: at most four bytes
	err  error       // of base64

	skip int64  // bytes to come of a frame that is not the last
	last []byte // the last frame, or the head of another
}

// Watch returns the Response for what is written to w in response to r.
func Watch(w http.ResponseWriter, r *http.Request) *Response {
	switch p := Of(r); p {
	case GRPC, GRPCWeb, Stream:
		return &Response{w: w, protocol: p}
	}
	return nil
}

// Begin reads the header when the response begins. Fields that are set later do not reach the client, except trailers.
func (c *Response) Begin() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = c.w.Header().Clone()
	}
}

// Wrote reads a part of the body, of which n bytes have been written, after Begin. A writer that adds something to p may count it in n.
func (c *Response) Wrote(p []byte, n int) {
	p = p[:max(0, min(n, len(p)))]
	if c == nil || len(p) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.body = true
	if !strings.HasPrefix(strings.ToLower(c.sent.Get("Content-Type")), "application/grpc-web-text") {
		c.read(p)
		return
	}
	for _, b := range p { // four bytes at a time, because each four may be padded
		if c.quad = append(c.quad, b); len(c.quad) == 4 {
			decoded, err := base64.StdEncoding.AppendDecode(nil, c.quad)
			c.read(decoded)
			c.err = cmp.Or(c.err, err)
			c.quad = c.quad[:0]
		}
	}
}

// A frame is a flag, the length of the data in four bytes, and the data. maxLast is the longest last frame that is read, in
// bytes. A compressed one may have twice as many.
const (
	compressed = 0x01 // the flags
	streamEnd  = 0x02 // the last envelope of Connect
	webEnd     = 0x80 // the last frame of gRPC-Web

	headSize = 5
	maxLast  = 64 << 10
)

// ends are the flags of the last frame.
var ends = [...]byte{GRPCWeb: webEnd, Stream: streamEnd}

// read keeps the last frame of a body, and what follows it.
func (c *Response) read(p []byte) {
	for len(p) > 0 {
		switch have := len(c.last); {
		case c.skip > 0:
			n := min(c.skip, int64(len(p)))
			p, c.skip = p[n:], c.skip-n
		case have < headSize:
			n := min(headSize-have, len(p))
			p, c.last = p[n:], append(c.last, p[:n]...)
			if len(c.last) == headSize && c.last[0]&ends[c.protocol] == 0 {
				c.last, c.skip = c.last[:0], int64(binary.BigEndian.Uint32(c.last[1:]))
			}
		default:
			c.last = append(c.last, p[:min(len(p), max(0, 2*maxLast+headSize+1-have))]...)
			return
		}
	}
}

// end returns the data of the last frame; nil if it has not arrived.
func (c *Response) end(encoding string) ([]byte, error) {
	if c.err != nil || len(c.last) < headSize {
		return nil, c.err
	}
	n, data := int64(binary.BigEndian.Uint32(c.last[1:])), c.last[headSize:]
	switch have := int64(len(data)); {
	case n > 2*maxLast:
		return nil, errTooLong
	case have > n:
		return nil, errExtra
	case have < n:
		return nil, nil
	}
	if c.last[0]&compressed != 0 {
		if encoding != "gzip" {
			return nil, fmt.Errorf("encoding %q is neither gzip nor identity", encoding)
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if data, err = io.ReadAll(io.LimitReader(z, maxLast+1)); err != nil {
			return nil, err
		}
	}
	if len(data) > maxLast {
		return nil, errTooLong
	}
	return data, nil
}

var (
	errTooLong = errors.New("the last frame is longer than 64 KiB")
	errExtra   = errors.New("more data follows the last frame")
	errNoJSON  = errors.New("the last envelope is no JSON")
	logged     atomic.Bool // that a status is unreadable
)

// Status returns the status of the call, as an HTTP status, if the HTTP status of the response is status. A call has
// failed if its status has not arrived or is unreadable.
func (c *Response) Status(status int) int {
	if c == nil || status >= http.StatusBadRequest {
		return status
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	code, err := c.code(c.w.Header())
	if err != nil && logged.CompareAndSwap(false, true) {
		slog.Warn("spillgate: the status of a call is unreadable", "err", err)
	}
	return code.HTTPStatus()
}

func (c *Response) code(h http.Header) (Code, error) {
	sent := c.sent
	if sent == nil { // the response begins when the handlers have returned
		sent = h
	}
	status := value(h, http.TrailerPrefix+"Grpc-Status")
	switch {
	case c.protocol == Stream:
		data, err := c.end(h.Get("Connect-Content-Encoding"))
		if data == nil {
			return unknown, err
		}
		return errorCode(data)
	case c.protocol == GRPCWeb && c.body:
		data, err := c.end(h.Get("Grpc-Encoding"))
		if data == nil {
			return unknown, err
		}
		fields, _ := textproto.NewReader(bufio.NewReader(bytes.NewReader(data))).ReadMIMEHeader() // EOF
		status = fields.Get("Grpc-Status")
	case status != "":
	case declares(sent["Trailer"], "Grpc-Status"):
		status = value(h, "Grpc-Status")
	case !c.body:
		status = value(sent, "Grpc-Status")
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		code = int(unknown)
	}
	return Code(code), nil
}

// declares reports whether the values of a Trailer field have a name.
func declares(trailers []string, name string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(trailers, ","), ","), func(declared string) bool {
		return strings.EqualFold(strings.TrimSpace(declared), name)
	})
}

// value returns the first value of a field, even if its name is not in canonical form.
func value(h http.Header, name string) string {
	for k, v := range h {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// errorCode returns the code in the last envelope of Connect, {"error":{"code":"not_found"}}, or 0 if there is no error. It
// breaks the envelope into lines, one for each field, because the decoder of JSON would make programs 90 KB larger. The lines are
// not indented, because deeply nested details would make them very long.
func errorCode(envelope []byte) (code Code, err error) {
	var b bytes.Buffer
	if json.Indent(&b, envelope, "", "") != nil || b.Bytes()[0] != '{' {
		return unknown, errNoJSON
	}
	inError, depth := false, 0
	for line := range strings.Lines(b.String()) {
		name, value, _ := strings.Cut(strings.TrimRight(line, ",\n"), ": ")
		if strings.IndexByte("]}", line[0]) >= 0 {
			depth--
		}
		switch isField := depth == 1 && line[0] == '"'; {
		case isField && strings.EqualFold(name, `"error"`):
			if code, inError = 0, value != "null"; inError {
				code = unknown
			}
		case isField:
			inError = false
		case inError && depth == 2 && strings.EqualFold(name, `"code"`) && value != "null":
			code = cmp.Or(Code(max(0, slices.Index(names[:], strings.Trim(value, `"`)))), unknown)
		}
		if strings.HasSuffix(line, "{\n") || strings.HasSuffix(line, "[\n") {
			depth++
		}
	}
	return code, nil
}
