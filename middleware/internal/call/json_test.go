package call

import (
	"encoding/json"
	"testing"
)

// TestErrorCode compares errorCode with encoding/json.
func TestErrorCode(t *testing.T) {
	values := []string{`null`, `""`, `"aborted"`, `"\u0061bor\u0074ed"`, `"a\"}\\"`, `"\ud83d"`, `1`, `true`, `{}`, `[]`, ` [ {"code":"x"} , "]" ] `, `{"a":[1,{"b":"}"}]}`, `x`, ``}
	var texts []string
	for _, v := range values {
		texts = append(texts, v, `{"error":`+v+`}`, ` { "metadata" : `+v+` , "ERROR" : {"message":"x","code" : `+v+` } } `,
			`{"error":{"code":"aborted"},"error":`+v+`}`, `{"\u0065rror":{"cod\u0065":"aborted","Code":`+v+`},"x":`+v+`}`,
			`{"error":null,"error":{"details":[`+v+`],"code":"aborted"}}`, `{"error":{"code":"aborted"},"error":{"x":`+v+`}}`)
	}
	for _, text := range texts {
		var want struct{ Error *struct{ Code string } }
		wantErr := json.Unmarshal([]byte(text), &want)
		code, failed, err := errorCode([]byte(text))
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%s: error %v, want %v", text, err, wantErr)
		}
		if err == nil && (failed != (want.Error != nil) || failed && code != want.Error.Code) {
			t.Errorf("%s: got %q, %v, want %+v", text, code, failed, want.Error)
		}
	}
}
