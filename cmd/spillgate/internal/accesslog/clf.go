package accesslog

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// clf reads the Common Log Format and its extensions: combined, Apache's combined with the virtual host in front, and
// Traefik's format, which ends with a duration.
type clf struct {
	common  bool
	traefik bool
	bare    bool
	clock   clock
}

func (c *clf) Knows(header string) bool {
	return !c.common && (header == "User-Agent" || header == "Referer")
}

func (c *clf) Parse(line string, e *Entry) error {
	*e = Entry{Duration: -1, Seconds: true, Header: e.Header}
	i := strings.IndexByte(line, '[')
	if i < 1 || line[i-1] != ' ' {
		return fmt.Errorf("want HOST IDENT USER [TIME] \"REQUEST\" STATUS BYTES, got %.60q", line)
	}
	if err := e.setClient(line[:i-1]); err != nil {
		return err
	}
	text, rest, ok := strings.Cut(line[i+1:], "] \"")
	if !ok {
		return fmt.Errorf("want [TIME] \"REQUEST\", got %.60q", line[i:])
	}
	var err error
	if e.At, err = c.clock.read(text); err != nil {
		return err
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return fmt.Errorf("the request has no end: %.60q", rest)
	}
	status, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	if err := e.setStatus(status); err != nil {
		return err
	}
	if err := c.setMore(e, rest); err != nil {
		return err
	}
	return e.setRequest(request)
}

// setClient reads "HOST IDENT USER", or "VHOST:PORT HOST IDENT USER". A user may contain spaces.
func (e *Entry) setClient(s string) error {
	host, rest, ok1 := strings.Cut(s, " ")
	ident, user, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || host == "" || ident == "" {
		return fmt.Errorf("want HOST IDENT USER, got %.60q", s)
	}
	if next, u, ok := strings.Cut(user, " "); ok && ident != "-" && next == "-" {
		e.Host, host, user = host, ident, u
	}
	e.Client = host
	if user != "-" {
		e.User = user
	}
	return nil
}

// setMore reads what follows the status: bytes, referrer, user agent and, for Traefik, a duration.
func (c *clf) setMore(e *Entry, rest string) error {
	size, rest, more := strings.Cut(rest, " ")
	if _, ok := number(size); !ok && size != "-" {
		return fmt.Errorf("%.20q is not a number of bytes", size)
	}
	if c.common {
		return nil
	}
	if !more || !strings.HasPrefix(rest, "\"") {
		return fmt.Errorf("want \"REFERER\" \"USER AGENT\" after the bytes, got %.60q", rest)
	}
	referer, rest, ok := quoted(rest[1:])
	rest = strings.TrimLeft(rest, " ")
	if !ok || !strings.HasPrefix(rest, "\"") {
		return fmt.Errorf("want \"USER AGENT\", got %.60q", rest)
	}
	agent, rest, ok := quoted(rest[1:])
	if !ok {
		return fmt.Errorf("the user agent has no end")
	}
	if !c.bare {
		e.setHeader("Referer", referer)
		e.setHeader("User-Agent", agent)
	}
	if c.traefik {
		last := rest[strings.LastIndexByte(rest, ' ')+1:]
		ms, isTime := strings.CutSuffix(last, "ms")
		n, ok := number(ms)
		if !ok || !isTime {
			return fmt.Errorf("want a duration such as 12ms at the end, got %.20q", last)
		}
		e.Duration = time.Duration(n) * time.Millisecond
	}
	return nil
}

// setHeader records a field of the request's header; "-" means none.
func (e *Entry) setHeader(name, value string) {
	if value == "-" || value == "" {
		delete(e.Header, name)
		return
	}
	if e.Header == nil {
		e.Header = make(http.Header)
	}
	if old := e.Header[name]; len(old) == 1 {
		old[0] = value
		return
	}
	e.Header[name] = []string{value}
}

// quoted returns s up to the first unescaped quote, without the escapes of quotes, and the rest of s.
func quoted(s string) (text, rest string, ok bool) {
	for end := 0; end < len(s); end++ {
		i := strings.IndexByte(s[end:], '"')
		if i < 0 {
			break
		}
		end += i
		if before := strings.TrimRight(s[:end], `\`); (end-len(before))%2 == 0 {
			text = s[:end]
			if strings.Contains(text, `\`) {
				text = unescape(text)
			}
			return text, s[end+1:], true
		}
	}
	return "", s, false
}

// unescape replaces \" and \\, and their forms \x22 and \x5C, which nginx writes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
		case s[i+1] == '"' || s[i+1] == '\\':
			i++
			b.WriteByte(s[i])
		case strings.HasPrefix(s[i:], `\x22`):
			i += 3
			b.WriteByte('"')
		case strings.HasPrefix(s[i:], `\x5C`), strings.HasPrefix(s[i:], `\x5c`):
			i += 3
			b.WriteByte('\\')
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}
