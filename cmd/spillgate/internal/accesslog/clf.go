package accesslog

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// clf reads the Common Log Format and its extensions: combined, Apache's combined with the virtual host in front, and
// Traefik's format, which has the start of a request and ends with its duration.
// See https://github.com/traefik/traefik/blob/master/pkg/middlewares/accesslog/logger_formatters.go.
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
	end := strings.Index(line, "] \"")
	i := strings.LastIndexByte(line[:max(end, 0)], '[')
	if i < 1 || line[i-1] != ' ' {
		return fmt.Errorf("want HOST IDENT USER [TIME] \"REQUEST\" STATUS BYTES, got %.60q", line)
	}
	who, text, rest := line[:i-1], line[i+1:end], line[end+len("] \""):]
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
	if err := e.setClientAndUser(who); err != nil {
		return err
	}
	return e.setRequest(request)
}

// setClientAndUser reads "HOST IDENT USER" or "VHOST:PORT HOST IDENT USER", either behind what a collector of logs puts
// in front of each line. A user may contain spaces.
func (e *Entry) setClientAndUser(s string) error {
	client, rest, _ := strings.Cut(s, " ")
	user, ok := strings.CutPrefix(rest, "- ")
	if !ok || strings.IndexByte(user, ' ') >= 0 || user == "" { // not the usual line
		columns := columnsOf(s)
		host, ident, err := clientColumn(columns)
		if err != nil {
			return err
		}
		client, user = columns[host], strings.Join(columns[ident+1:], " ")
		if host > 0 {
			if _, ok := hostName(columns[host-1]); ok {
				e.Host = columns[host-1]
			}
		}
	}
	if user != "-" && user != `""` { // Apache writes "" for an empty name
		e.User = unescape(user)
	}
	return e.setClient(unescape(client))
}

// columnsOf returns the columns of s. A list of addresses is one column.
func columnsOf(s string) (columns []string) {
	list := false
	for _, field := range strings.Fields(s) {
		if list {
			columns[len(columns)-1] += " " + field
		} else {
			columns = append(columns, field)
		}
		list = strings.HasSuffix(field, ",")
	}
	return columns
}

// clientColumn returns the indexes of HOST and IDENT. HOST is the address or host name in front of an IDENT that is "-".
// If there are two, the client is not known, because clients choose their user names, and what a collector puts in front
// has many forms. But if the line begins with an address, that is the client, whatever follows. Then IDENT may also be a
// word or follow the name of the server.
func clientColumn(columns []string) (host, ident int, err error) {
	first, n, client := 0, len(columns), ""
	if n > 0 && strings.HasPrefix(columns[0], "<") && strings.HasSuffix(columns[0], ">1") {
		first = 6 // RFC 5424: the header may have "-" behind the name of the sender
	}
	bad := func() error {
		return partsError{fmt.Errorf("want HOST IDENT USER, got %.60q", strings.Join(columns, " "))}
	}
	if n < first+3 {
		return 0, 0, bad()
	}
	_, begins := address(columns[first])
	for i := first; i+2 < n; i++ {
		if columns[i+1] != "-" {
			continue
		}
		c, isAddress := address(columns[i])
		ok := isAddress
		if !ok {
			c, ok = hostName(columns[i])
		}
		switch {
		case !ok:
		case client == "" && !isAddress && columns[i+2] == "-" && i+3 < n: // a word in front of empty columns
			return 0, 0, bad()
		case client == "" && !isAddress && begins && i == first+1:
			host, ident, client = first, i+1, columns[first]
		case client == "" || client == c:
			host, ident, client = i, i+1, c
		case host > first || !begins:
			return 0, 0, partsError{fmt.Errorf("the client may be %.40q or %.40q", client, c)}
		}
	}
	if client != "" {
		return host, ident, nil
	}
	_, named := hostName(columns[first])
	if _, word := hostName(columns[first+1]); word && (begins || named) && n == first+3 {
		return first, first + 1, nil
	}
	return 0, 0, bad()
}

// setMore reads what follows the status: bytes, referrer, user agent and, for Traefik, a duration.
func (c *clf) setMore(e *Entry, rest string) error {
	size, rest, _ := strings.Cut(rest, " ")
	if _, ok := number(size); !ok && size != "-" {
		return fmt.Errorf("%.20q is not a number of bytes", size)
	}
	if c.common {
		return nil
	}
	if !strings.HasPrefix(rest, "\"") {
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
		e.Started, e.Duration = true, time.Duration(n)*time.Millisecond
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
			return unescape(s[:end]), s[end+1:], true
		}
	}
	return "", s, false
}

// unescape replaces \" and \\, bytes such as \xC3, which nginx and Apache write, and \t and the like, which Apache writes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	const letters, bytes = `"\bnrtv`, "\"\\\b\n\r\t\v"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
		} else if letter := strings.IndexByte(letters, s[i+1]); letter >= 0 {
			i++
			b.WriteByte(bytes[letter])
		} else if c, err := strconv.ParseUint(s[i+2:min(i+4, len(s))], 16, 8); err == nil && s[i+1] == 'x' && i+4 <= len(s) {
			i += 3
			b.WriteByte(byte(c))
		} else {
			b.WriteByte('\\')
		}
	}
	return b.String()
}
