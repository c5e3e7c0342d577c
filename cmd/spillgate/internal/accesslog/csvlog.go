package accesslog

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
)

// csvLog reads comma-separated values (RFC 4180); the first line names the columns.
type csvLog struct {
	options Options
	named
	columns []string
}

func (c *csvLog) Knows(header string) bool { return newNamed(nil, c.options).headers[header] != "" }

// hasHeader reports whether the columns belong to an access log.
func (c *csvLog) hasHeader() bool {
	has := func(property string) bool {
		value, _ := c.value(property, func(field string) string {
			if slices.Contains(c.columns, field) {
				return field
			}
			return ""
		})
		return value != ""
	}
	return c.columns != nil && has("time") && has("client") && (has("path") || has("request"))
}

func (c *csvLog) Parse(line string, e *Entry) error {
	r := csv.NewReader(strings.NewReader(line))
	values, err := r.Read()
	if err != nil {
		return fmt.Errorf("this is not CSV: %w", err)
	}
	if c.columns == nil {
		if len(values) < 3 {
			return fmt.Errorf("want a line that names the columns, got %.40q", line)
		}
		c.columns, c.named = slices.Clone(values), newNamed(nil, c.options)
		return errSkip
	}
	if len(values) != len(c.columns) {
		return fmt.Errorf("want %d values, got %d", len(c.columns), len(values))
	}
	return c.set(e, func(field string) string {
		if i := slices.Index(c.columns, field); i >= 0 {
			return values[i]
		}
		return ""
	})
}
