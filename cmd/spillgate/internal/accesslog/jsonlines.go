package accesslog

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// jsonLines reads a JSON object per line.
type jsonLines struct{ named }

func newJSON(preset map[string]string, o Options) *jsonLines {
	return &jsonLines{newNamed(preset, o)}
}

func (j *jsonLines) Knows(header string) bool {
	if j.headers[header] != "" {
		return true
	}
	switch header { // Caddy does not log credentials
	case "Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization":
		return false
	}
	return j.fields["headers"] != ""
}

func (j *jsonLines) Parse(line string, e *Entry) error {
	if len(line) == 0 || line[0] != '{' || !gjson.Valid(line) {
		return fmt.Errorf("want a JSON object, got %.40q", line)
	}
	err := j.set(e, func(field string) string {
		if strings.HasPrefix(field, "@") { // otherwise gjson reads a modifier
			field = `\` + field
		}
		return gjson.Get(line, field).String()
	})
	if field := j.fields["headers"]; field != "" && !j.bare {
		e.Header = make(http.Header)
		gjson.Get(line, field).ForEach(func(name, values gjson.Result) bool {
			for _, v := range values.Array() {
				e.Header.Add(name.String(), v.String())
			}
			return true
		})
	}
	return err
}
