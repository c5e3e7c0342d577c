package call

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestOf(t *testing.T) {
	for _, row := range []struct {
		method, query, contentType, version string
		want                                Protocol
	}{
		{"POST", "", "application/grpc", "", GRPC},
		{"POST", "", "APPLICATION/GRPC+proto", "", GRPC},
		{"POST", "", "application/grpc;proto", "", GRPC},
		{"POST", "", "application/grpc\t; x=y", "", GRPC},
		{"POST", "", "application/grpc+", "1", GRPC},
		{"POST", "", "application/grp", "", None},
		{"POST", "", "application/grpcs", "", None},
		{"POST", "", "text/grpc", "", None},
		{"POST", "", "", "", None},
		{"GET", "", "application/grpc", "", None},
		{"PUT", "", "application/grpc", "", None},
		{"POST", "", "application/grpc-web", "", GRPCWeb},
		{"POST", "", "application/grpc-web+json", "", GRPCWeb},
		{"POST", "", "application/grpc-web-text; x=y", "", GRPCWeb},
		{"POST", "", "application/grpc-we", "", None},
		{"POST", "", "application/connect+proto", "", Stream},
		{"POST", "", "Application/Connect+JSON; charset=utf-8", "1", Stream},
		{"POST", "", "application/connect", "", None},
		{"POST", "", "application/json", "1", Unary},
		{"POST", "", "application/proto", "2", None},
		{"POST", "connect=v1", "application/json", "", None},
		{"OPTIONS", "connect=v1", "", "1", None},
		{"GET", "message=%7B%7D&connect=v1&encoding=json", "", "", Unary},
		{"GET", "disconnect=v1", "", "", None},
		{"GET", "connect=v12", "", "", None},
		{"HEAD", "connect=v1", "", "", None},
	} {
		r := httptest.NewRequest(row.method, "/?"+row.query, nil)
		for name, value := range map[string]string{"Content-Type": row.contentType, "Connect-Protocol-Version": row.version} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		expect.Equal(t, Of(r), row.want, "%+v", row)
	}
}

// TestHTTPStatus checks the table in the documentation of google.rpc.Code.
func TestHTTPStatus(t *testing.T) {
	for code, want := range map[Code]int{-1: 500, 0: 200, 1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400,
		10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 15: 500, 16: 401, 17: 500, 1 << 40: 500} {
		expect.Equal(t, code.HTTPStatus(), want, "code %d", code)
	}
}

// statusOf returns the status of a call in a response that is written in parts.
func statusOf(contentType string, header http.Header, parts ...[]byte) int {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	for name, values := range header {
		w.Header()[name] = values
	}
	c := Watch(w, r)
	c.Begin()
	for _, p := range parts {
		c.Wrote(p, len(p))
	}
	return c.Status(http.StatusOK)
}

// TestCutFrames checks that a response in three parts has the same status wherever it is cut, and none if its end is missing.
func TestCutFrames(t *testing.T) {
	frame := func(flag byte, data string) string {
		return string(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(data)))) + data
	}
	for contentType, body := range map[string]string{
		"application/grpc-web":      frame(0, "") + frame(0, "\x80\x80") + frame(0x80, "grpc-status:5\r\n"),
		"Application/GRPC-Web-Text": base64.StdEncoding.EncodeToString([]byte(frame(0x80, "grpc-status:5\r\n"))),
		"application/connect+json":  frame(0, "\x02") + frame(2, `{"error":{"code":"not_found"}}`),
	} {
		for i := range len(body) + 1 {
			for j := i; j <= len(body); j++ {
				parts := [][]byte{[]byte(body[:i]), []byte(body[i:j]), []byte(body[j:])}
				must.Equal(t, statusOf(contentType, http.Header{"Content-Type": {contentType}}, parts...), http.StatusNotFound, "%s, cut at %d and %d: status", contentType, i, j)
				if got := statusOf(contentType, http.Header{"Content-Type": {contentType}}, parts[:2]...); j < len(body) && got != http.StatusInternalServerError {
					t.Fatalf("%s, only %d bytes in two parts: status %d", contentType, j, got)
				}
			}
		}
	}
}

// TestUnreadableIsLoggedOnce checks that a call with an unreadable status counts as failed, and that one log line says why.
func TestUnreadableIsLoggedOnce(t *testing.T) {
	log := expect.KeepLog(t)
	for range 3 {
		got := statusOf("application/grpc-web", http.Header{"Grpc-Encoding": {"br"}}, []byte("\x81\x00\x00\x00\x01x"))
		expect.Equal(t, got, 500, "status")
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	expect.True(t, len(lines) == 1 && strings.Contains(lines[0], `encoding \"br\"`), "logged %q", lines)
}

// TestErrorCode compares errorCode with the decoder of encoding/json. It leaves out what servers do not
// write: escapes in names and codes, and two errors.
func TestErrorCode(t *testing.T) {
	values := []string{`null`, `""`, `"aborted"`, `"a\"}\\"`, `"\ud83d"`, `"ok"`, `"x,"`, `1`, `true`, `{}`, `[]`, ` [ {"code":"x"} , "]" ] `, `{"a":[1,{"b":"}"}]}`,
		`{"code":"aborted"}`, `{"error":{"code":"aborted"}}`, `["error: {", "code: \"aborted\""]`, `x`, ``}
	texts := []string{`[]`, `""`, `1`, `[{"error":{"code":"aborted"}}]`}
	for _, v := range values {
		if v != "null" {
			texts = append(texts, v)
		}
		texts = append(texts, `{"error":`+v+`}`, ` { "metadata" : `+v+` , "ERROR" : {"message":"x","code" : `+v+` } } `, `{"code":`+v+`}`,
			`{"error":{"code":"aborted","Code":`+v+`},"x":`+v+`}`, "{\n\"error\":\t{\"code\":\n"+v+"\n}\n}\n",
			`{"error":null,"error":{"details":[`+v+`],"code":"aborted"}}`, `{"error":{"code":"aborted"},"error":null,"x":`+v+`}`, `{"error":{},"metadata":{"code":`+v+`}}`)
	}
	for _, text := range texts {
		var decoded struct{ Error *struct{ Code string } }
		err := json.Unmarshal([]byte(text), &decoded)
		want := Code(0)
		if err != nil {
			want = unknown
		} else if decoded.Error != nil {
			want = cmp.Or(Code(max(0, slices.Index(names[:], decoded.Error.Code))), unknown)
		}
		if got, failed := errorCode([]byte(text)); got != want || failed != nil && err == nil || failed == nil && !json.Valid([]byte(text)) {
			t.Errorf("%s: code %d, %v; want %d, %v", text, got, failed, want, err)
		}
	}
	var before, after runtime.MemStats
	deep := `{"error":{"details":` + strings.Repeat(`[`, 9_000) + strings.Repeat(`]`, 9_000) + `,"code":"aborted"}}`
	runtime.ReadMemStats(&before)
	got, err := errorCode([]byte(deep))
	runtime.ReadMemStats(&after)
	size := after.TotalAlloc - before.TotalAlloc
	expect.True(t, err == nil && names[got] == "aborted" && size < 2<<20, "deep details: code %d, %v, %d bytes", got, err, size)
}
