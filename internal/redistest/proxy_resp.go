package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readValue reads one value of RESP2 or RESP3 and returns its bytes. See https://redis.io/docs/latest/develop/reference/protocol-spec/.
func readValue(r *bufio.Reader) ([]byte, error) {
	text, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(text[1:]))) // types without a length do not use it
	switch text[0] {
	case '$', '=', '!':
		if n < 0 {
			return text, nil
		}
		text = append(text, make([]byte, n+2)...)
		_, err = io.ReadFull(r, text[len(text)-n-2:])
		return text, err
	case '*', '~', '>':
		return readValues(r, text, n)
	case '%':
		return readValues(r, text, 2*n)
	case '|': // attributes of the value that follows
		return readValues(r, text, 2*n+1)
	case '+', '-', ':', '_', '#', ',', '(':
		return text, nil
	}
	return nil, fmt.Errorf("not RESP: %q", text)
}

func readValues(r *bufio.Reader, text []byte, n int) ([]byte, error) {
	for range n {
		value, err := readValue(r)
		if err != nil {
			return nil, err
		}
		text = append(text, value...)
	}
	return text, nil
}

// isScript reports whether a command runs a script.
func isScript(command []byte) bool {
	words := bytes.SplitN(command, []byte("\r\n"), 4)
	if len(words) < 4 {
		return false
	}
	switch strings.ToLower(string(words[2])) {
	case "fcall", "evalsha", "eval":
		return true
	}
	return false
}
