package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// cloudFront reads standard logs of CloudFront, whose first lines name the fields, or whose lines are JSON.
// See https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html.
type cloudFront struct {
	bare   bool
	index  map[string]int
	values []string
	object string // JSON instead of values
}

func (c *cloudFront) hasHeader() bool { return c.index != nil }

func (*cloudFront) Knows(header string) bool {
	return header == "User-Agent" || header == "Referer" || header == "Cookie"
}

func (c *cloudFront) Parse(line string, e *Entry) error {
	*e = Entry{Duration: -1, Header: e.Header}
	if err := c.split(line); err != nil {
		return err
	}
	at := c.get("timestamp(ms)")
	if date := c.get("date"); at == "" && date != "" {
		at = date + "T" + c.get("time") + "Z"
	} else if at == "" {
		at = c.get("timestamp")
	}
	var wrong partsError
	var err error
	if e.At, e.Seconds, err = anyTime(at); err != nil {
		wrong = append(wrong, err)
	}
	if client := c.get("c-ip"); client == "" {
		wrong = append(wrong, errors.New("c-ip is missing"))
	} else if err := e.setClient(client); err != nil {
		wrong = append(wrong, err)
	}
	if c.get("cs-method") == "" || c.get("cs-uri-stem") == "" {
		wrong = append(wrong, errors.New("cs-method or cs-uri-stem is missing"))
	}
	if wrong != nil {
		return wrong
	}
	if err := e.setStatus(cmp.Or(c.get("sc-status"), "-")); err != nil {
		return err
	}
	if d, ok := seconds(c.get("time-taken")); ok {
		e.Duration = d
	}
	e.Host = c.get("x-host-header")
	if !c.bare {
		c.setHeaders(e)
	}
	target := c.get("cs-uri-stem")
	if q := c.get("cs-uri-query"); q != "" {
		target += "?" + q
	}
	return e.setRequest(c.get("cs-method") + " " + target + " HTTP/1.1")
}

// split sets the values of a line. For a comment, it returns errSkip; from the comment that names the fields, it sets
// index.
func (c *cloudFront) split(line string) error {
	if fields, ok := strings.CutPrefix(line, "#Fields:"); ok {
		c.index = make(map[string]int)
		for i, name := range strings.Fields(fields) {
			c.index[strings.Clone(name)] = i
		}
		return errSkip
	}
	if strings.HasPrefix(line, "#") {
		return errSkip
	}
	if c.index == nil {
		if c.object = jsonOf(line); c.get("c-ip") != "" || c.get("cs-method") != "" {
			return nil
		}
		return fmt.Errorf("there is no line #Fields: before")
	}
	c.values = c.values[:0]
	for value := range strings.SplitSeq(line, "\t") {
		c.values = append(c.values, value)
	}
	return nil
}

// setHeaders reads the fields of the request's header that a log has.
func (c *cloudFront) setHeaders(e *Entry) {
	for field, header := range map[string]string{"cs(User-Agent)": "User-Agent", "cs(Referer)": "Referer", "cs(Cookie)": "Cookie"} {
		value, err := url.PathUnescape(c.get(field))
		if err != nil {
			value = c.get(field)
		}
		e.setHeader(header, value)
	}
}

// get returns the value of a field, or "" if the log does not have it.
func (c *cloudFront) get(name string) (value string) {
	if c.object != "" {
		value = gjson.Get(c.object, name).String()
	} else if i, ok := c.index[name]; ok && i < len(c.values) {
		value = c.values[i]
	}
	if value == "-" {
		return ""
	}
	return value
}
