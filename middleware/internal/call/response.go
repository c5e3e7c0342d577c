package call

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
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
)

// A Response finds the status in the response to a call. A nil Response belongs to a request whose status is the HTTP
// status. It is safe for concurrent use, because a handler's goroutines may still write after the handler has returned.
type Response struct {
	w        http.ResponseWriter
	protocol Protocol

	mu     sync.Mutex
	begun  bool
	head   head   // once the response has begun
	body   bool   // the body is not empty
	quad   []byte // of base64: at most four bytes
	frames frames
}

// Watch returns the Response for what is written to w in response to r.
func Watch(w http.ResponseWriter, r *http.Request) *Response {
	switch p := Of(r); p {
	case GRPC, GRPCWeb, Stream:
		return &Response{w: w, protocol: p, frames: frames{end: [...]byte{GRPCWeb: webEnd, Stream: streamEnd}[p]}}
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
	if !c.begun {
		c.begun, c.head = true, headOf(c.w.Header())
	}
}

// A head is what the header of a response says about the status.
type head struct {
	status   string // the Grpc-Status in the header
	declared bool   // Grpc-Status is a trailer
	text     bool   // the body is base64
}

func headOf(h http.Header) head {
	return head{
		status: value(h, "Grpc-Status"),
		declared: slices.ContainsFunc(strings.Split(strings.Join(h["Trailer"], ","), ","), func(name string) bool {
			return strings.EqualFold(strings.TrimSpace(name), "Grpc-Status")
		}),
		text: hasPrefix(h.Get("Content-Type"), "application/grpc-web-text"),
	}
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

// Wrote reads a part of the body that has been written, after Begin.
func (c *Response) Wrote(p []byte) {
	if c == nil || len(p) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.body = true
	if !c.head.text {
		c.frames.read(p)
		return
	}
	for _, b := range p { // four bytes at a time, because each four may be padded
		if c.quad = append(c.quad, b); len(c.quad) == 4 {
			var decoded [3]byte
			n, err := base64.StdEncoding.Decode(decoded[:], c.quad)
			c.frames.read(decoded[:n])
			c.frames.err = cmp.Or(c.frames.err, err)
			c.quad = c.quad[:0]
		}
	}
}

var logUnreadable sync.Once

// Status returns the status of the call, as an HTTP status, if the HTTP status of the response is status. A call has
// failed if its status has not arrived or is unreadable.
func (c *Response) Status(status int) int {
	if c == nil || status >= http.StatusBadRequest {
		return status
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	code, err := c.code(c.w.Header())
	if err != nil {
		logUnreadable.Do(func() { slog.Warn("spillgate: the status of a call is unreadable", "err", err) })
		code = unknown
	}
	return code.HTTPStatus()
}

func (c *Response) code(h http.Header) (Code, error) {
	head := c.head
	if !c.begun { // it begins when the handlers have returned
		head = headOf(h)
	}
	status := value(h, http.TrailerPrefix+"Grpc-Status")
	switch {
	case c.protocol == Stream:
		return c.frames.envelope(h.Get("Connect-Content-Encoding"))
	case c.protocol == GRPCWeb && c.body:
		last, err := c.frames.last(h.Get("Grpc-Encoding"))
		if err != nil {
			return unknown, err
		}
		fields, _ := textproto.NewReader(bufio.NewReader(bytes.NewReader(last))).ReadMIMEHeader() // EOF
		status = fields.Get("Grpc-Status")
	case status != "":
	case head.declared:
		status = value(h, "Grpc-Status")
	case !c.body:
		status = head.status
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		code = int(unknown)
	}
	return Code(code), nil
}

// Flags of a frame.
const (
	compressed = 0x01
	streamEnd  = 0x02 // the last envelope of Connect
	webEnd     = 0x80 // the last frame of gRPC-Web
)

// maxLast is the longest last frame that is read, in bytes. A compressed one may have twice as many.
const maxLast = 64 << 10

var (
	errTooLong = errors.New("the last frame is longer than 64 KiB")
	errExtra   = errors.New("more data follows the last frame")
)

// frames finds the last frame of a body. A frame is a flag, the length of the data in four bytes, and the data.
type frames struct {
	end  byte // the flag of the last frame; 0: the body is not read
	head [5]byte
	have int    // bytes of head
	rest int64  // bytes of data to come
	data []byte // of the last frame
	err  error
}

func (f *frames) read(p []byte) {
	for len(p) > 0 && f.err == nil && f.end != 0 {
		if f.have < len(f.head) {
			n := copy(f.head[f.have:], p)
			p, f.have, f.rest = p[n:], f.have+n, int64(binary.BigEndian.Uint32(f.head[1:]))
		} else {
			n := int(min(int64(len(p)), f.rest))
			if f.isLast() {
				f.data = append(f.data, p[:n]...)
			}
			p, f.rest = p[n:], f.rest-int64(n)
		}
		switch {
		case f.have < len(f.head):
		case !f.isLast() && f.rest == 0:
			f.have = 0
		case f.isLast() && f.rest > 2*maxLast:
			f.err = errTooLong
		case f.isLast() && f.rest == 0 && len(p) > 0:
			f.err = errExtra
		}
	}
}

func (f *frames) isLast() bool { return f.head[0]&f.end != 0 }

// last returns the data of the last frame; nil if it has not arrived.
func (f *frames) last(encoding string) (data []byte, err error) {
	if f.err != nil || f.have < len(f.head) || f.rest > 0 {
		return nil, f.err
	}
	data = f.data
	if f.head[0]&compressed != 0 {
		if encoding != "gzip" {
			return nil, fmt.Errorf("encoding %q is neither gzip nor identity", encoding)
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			var b bytes.Buffer
			_, err = b.ReadFrom(io.LimitReader(z, maxLast+1))
			data = b.Bytes()
		}
		if err != nil {
			return nil, err
		}
	}
	if len(data) > maxLast {
		return nil, errTooLong
	}
	return data, nil
}

// envelope returns the code in the last envelope of Connect.
func (f *frames) envelope(encoding string) (Code, error) {
	data, err := f.last(encoding)
	if data == nil {
		return unknown, err
	}
	name, failed, err := errorCode(data)
	switch {
	case err != nil:
		return unknown, err
	case !failed:
		return 0, nil
	}
	return cmp.Or(Code(max(0, slices.Index(names[:], name))), unknown), nil
}
