package main

import (
	"bytes"
	"errors"
	"strings"
)

// patch replaces a text that is embedded in a binary, which is much faster than to compile and link again. The size stays
// the same: the comment in the first line of the text grows or shrinks by the difference.
func patch(binary []byte, was, instead string) ([]byte, error) {
	comment, _, _ := strings.Cut(was, "\n")
	rest, ok := strings.CutPrefix(instead, comment)
	missing := len(was) - len(instead)
	switch {
	case !ok || len(comment)+missing < len("--"):
		return nil, errors.New("the text does not begin with a comment that can change in place of the rest")
	case bytes.Count(binary, []byte(was)) != 1:
		return nil, errors.New("the text is not in the binary, or not once")
	}
	comment = (comment + strings.Repeat(" ", max(0, missing)))[:len(comment)+missing]
	return bytes.Replace(binary, []byte(was), []byte(comment+rest), 1), nil
}
