package call

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	errNoJSON = errors.New("the last envelope is no JSON")
	errType   = errors.New("a value in the last envelope has the wrong type")
)

// errorCode returns the code of the error in an envelope, {"error":{"code":"not_found"}}, and whether there is an error. It
// does what json.Unmarshal does with struct{ Error *struct{ Code string } }, without the decoder, which would make programs
// 90 KB larger.
func errorCode(data []byte) (code string, failed bool, err error) {
	if !json.Valid(data) {
		return "", false, errNoJSON
	}
	err = eachField(string(data), func(name, value string) error {
		switch {
		case !strings.EqualFold(name, "error"):
			return nil
		case value == "null":
			code, failed = "", false
			return nil
		}
		failed = true
		return eachField(value, func(name, value string) error {
			switch {
			case !strings.EqualFold(name, "code") || value == "null":
				return nil
			case value[0] != '"':
				return errType
			}
			code = unquote(value)
			return nil
		})
	})
	return code, failed, err
}

// eachField calls f for the fields of an object, in valid JSON. There are none in null.
func eachField(s string, f func(name, value string) error) error {
	s = trimSpace(s)
	if s == "null" {
		return nil
	}
	if s[0] != '{' {
		return errType
	}
	for s = trimSpace(s[1:]); s[0] != '}'; {
		n := valueLength(s)
		name := unquote(s[:n])
		s = trimSpace(trimSpace(s[n:])[1:]) // the colon
		n = valueLength(s)
		if err := f(name, s[:n]); err != nil {
			return err
		}
		if s = trimSpace(s[n:]); s[0] == ',' {
			s = trimSpace(s[1:])
		}
	}
	return nil
}

func trimSpace(s string) string { return strings.Trim(s, " \t\r\n") }

// valueLength returns the length of the value that s, valid JSON, starts with.
func valueLength(s string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
			continue
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			depth--
		case depth == 0 && strings.IndexByte(",:}] \t\r\n", c) >= 0:
			return i
		}
		if depth == 0 && !quoted && strings.IndexByte("\"}]", s[i]) >= 0 {
			return i + 1
		}
	}
	return len(s)
}

// unquote returns the text of a string in valid JSON.
func unquote(s string) string {
	s = s[1 : len(s)-1]
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		if s[i] != 'u' {
			b = append(b, s[i])
			if n := strings.IndexByte("bfnrt", s[i]); n >= 0 {
				b[len(b)-1] = "\b\f\n\r\t"[n]
			}
			continue
		}
		c := hex(s[i+1 : i+5])
		i += 4
		if utf16.IsSurrogate(c) {
			c = utf8.RuneError // half of a character that is in no name
		}
		b = utf8.AppendRune(b, c)
	}
	return string(b)
}

func hex(s string) (c rune) {
	for i := range len(s) {
		c = c<<4 | rune(s[i]&0xf)
		if s[i] > '9' {
			c += 9
		}
	}
	return c
}
