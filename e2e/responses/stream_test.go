package responses

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestFullDuplex checks that a handler can write its response while it still reads the body.
func TestFullDuplex(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		expect.NoError(t, c.EnableFullDuplex(), "EnableFullDuplex")
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			_, _ = fmt.Fprintln(w, strings.ToUpper(lines.Text()))
			expect.NoError(t, c.Flush(), "Flush")
		}
	}
	eachOf(t, 1, h, func(t *testing.T, s *wire.Server) {
		body, send := io.Pipe()
		sent := make(chan bool)
		go func() {
			defer send.Close()
			for _, line := range []string{"one", "two"} {
				_, _ = io.WriteString(send, line+"\n")
				sent <- true
			}
		}()
		resp, err := s.Client().Do(wire.Request(t, http.MethodPost, s.URL, body))
		must.Do(t, err)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for _, want := range []string{"ONE\n", "TWO\n"} {
			got, err := lines.ReadString('\n')
			must.True(t, err == nil && got == want, "answer %q, %v, want %q", got, err, want)
			<-sent
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 { // a client that leaves earlier makes the last Flush fail
			t.Errorf("after the last answer: %q, %v", rest, err)
		}
	})
}
