package call

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"
)

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
}
