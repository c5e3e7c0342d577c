package disconnects

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
)

// streams is how many requests one connection sends. If a client resets many more, the server treats it as an attacker.
const streams = 10

// resetStreams sends the frames of requests, each directly followed by RST_STREAM, so that the server reads both at once.
func resetStreams(t *testing.T, s *wire.Server) {
	eachRequest(requests/streams, func(int) {
		config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.NextProtos = []string{http2.NextProtoTLS}
		conn, err := tls.Dial("tcp", s.Addr(), config)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(wire.Timeout))
		if p := conn.ConnectionState().NegotiatedProtocol; p != "h2" {
			t.Errorf("the server speaks %q", p)
			return
		}
		var out bytes.Buffer
		out.WriteString(http2.ClientPreface)
		expect.NoError(t, writeFrames(http2.NewFramer(&out, nil)), "writeFrames")
		expect.NoError(t, expect.ErrorOf(conn.Write(out.Bytes())), "Write")
		awaitPing(t, http2.NewFramer(nil, conn))
	})
}

// writeFrames writes requests, each with its reset, and a ping at the end.
func writeFrames(f *http2.Framer) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range uint32(streams) {
		block.Reset()
		for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				return err
			}
		}
		id := 2*i + 1
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
		if err == nil {
			err = f.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		if err != nil {
			return err
		}
	}
	return f.WritePing(false, [8]byte{1})
}

// awaitPing reads until the response to the ping: by then, the server has read everything sent before it.
func awaitPing(t *testing.T, f *http2.Framer) {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Error(err)
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			return
		}
	}
}
