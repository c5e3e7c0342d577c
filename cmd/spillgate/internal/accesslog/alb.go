package accesslog

import (
	"fmt"
	"strings"
	"time"
)

// alb reads logs of AWS Application Load Balancers.
// See https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html.
type alb struct{ bare bool }

func (*alb) Knows(header string) bool { return header == "User-Agent" }

// Parse implements Parser. It reads these fields: TYPE TIME ELB CLIENT:PORT TARGET REQUEST_TIME TARGET_TIME
// RESPONSE_TIME STATUS TARGET_STATUS RECEIVED SENT "REQUEST" "USER AGENT".
func (a *alb) Parse(line string, e *Entry) error {
	*e = Entry{Duration: -1, Header: e.Header}
	var f [12]string
	rest := line
	for i := range f {
		var ok bool
		if f[i], rest, ok = strings.Cut(rest, " "); !ok {
			return fmt.Errorf("want 14 fields at least, got %d", i)
		}
	}
	if !strings.Contains("|http|https|h2|grpcs|ws|wss|", "|"+f[0]+"|") {
		return fmt.Errorf("%.20q is not a type such as http or h2", f[0])
	}
	var err error
	if e.At, e.Seconds, err = anyTime(f[1]); err != nil {
		return err
	}
	var ok bool
	if e.Client, ok = beforePort(f[3]); !ok {
		return fmt.Errorf("%.60q is not an address with a port", f[3])
	}
	e.Duration = sumOf(f[5:8])
	if err := e.setStatus(f[8]); err != nil {
		return err
	}
	request, rest, ok := quoted(strings.TrimPrefix(rest, "\""))
	if !ok {
		return fmt.Errorf("want \"REQUEST\"")
	}
	if agent, _, ok := quoted(strings.TrimPrefix(strings.TrimLeft(rest, " "), "\"")); ok && !a.bare {
		e.setHeader("User-Agent", agent)
	}
	return e.setRequest(strings.TrimRight(request, " -"))
}

// sumOf adds durations in seconds. It returns -1 if one of them is -1: the connection was closed.
func sumOf(texts []string) (sum time.Duration) {
	for _, text := range texts {
		d, ok := seconds(text)
		if !ok {
			return -1
		}
		sum += d
	}
	return sum
}
