package accesslog

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// jsonLines reads a JSON object per line.
type jsonLines struct{ named }

func newJSON(preset map[string][]string, o Options) *jsonLines {
	return &jsonLines{newNamed(preset, o)}
}

func (j *jsonLines) Knows(header string) bool {
	return j.headers[header] != "" || j.fields["headers"] != nil && !isCredential(header)
}

// isCredential reports whether Caddy logs "REDACTED" instead of a field's value.
func isCredential(header string) bool {
	return header == "Authorization" || header == "Cookie" || header == "Proxy-Authorization"
}

func (j *jsonLines) Parse(line string, e *Entry) error {
	object := jsonOf(line)
	if object == "" {
		return fmt.Errorf("want a JSON object, got %.40q", line)
	}
	if field := j.fields["headers"]; field != nil && !j.bare {
		e.Header = make(http.Header)
		gjson.Get(object, field[0]).ForEach(func(name, values gjson.Result) bool {
			if isCredential(name.String()) {
				return true
			}
			for _, v := range values.Array() {
				e.Header.Add(name.String(), v.String())
			}
			return true
		})
	}
	return j.set(e, func(field string) string { return jsonField(object, field) })
}

// jsonOf returns the JSON object that a line ends with, or "". Collectors of logs put text in front of it.
func jsonOf(line string) string {
	if i := strings.IndexByte(line, '{'); i >= 0 && gjson.Valid(line[i:]) {
		return line[i:]
	}
	return ""
}

// jsonField returns a field of a JSON object, or the first value of an array.
func jsonField(object, field string) string {
	if strings.HasPrefix(field, "@") { // otherwise gjson reads a modifier
		field = `\` + field
	}
	value := gjson.Get(object, field)
	if value.IsArray() {
		value = value.Get("0")
	}
	if value.Type == gjson.Number {
		return value.Raw // with all digits
	}
	return value.String()
}
