package accesslog

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// cloudFront reads standard logs of CloudFront, whose first lines name the fields.
// See https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html.
type cloudFront struct {
	bare   bool
	index  map[string]int
	values []string
}

func (*cloudFront) Knows(header string) bool {
	return header == "User-Agent" || header == "Referer" || header == "Cookie"
}

func (c *cloudFront) Parse(line string, e *Entry) error {
	*e = Entry{Duration: -1, Header: e.Header}
	if err := c.split(line); err != nil {
		return err
	}
	at, err := time.Parse("2006-01-02 15:04:05", c.get("date")+" "+c.get("time"))
	if err != nil {
		return fmt.Errorf("%.40q is not a time", c.get("date")+" "+c.get("time"))
	}
	if e.At, e.Seconds, err = inRange(at, true); err != nil {
		return err
	}
	if e.Client = c.get("c-ip"); e.Client == "" {
		return fmt.Errorf("c-ip is missing")
	}
	if err := e.setStatus(c.get("sc-status")); err != nil {
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
func (c *cloudFront) get(name string) string {
	if i, ok := c.index[name]; ok && i < len(c.values) && c.values[i] != "-" {
		return c.values[i]
	}
	return ""
}
