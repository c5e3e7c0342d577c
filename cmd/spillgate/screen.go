package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A screen describes what output is written to.
type screen struct {
	terminal bool
	color    bool // on a terminal, unless NO_COLOR is set: see https://no-color.org
	width    int
}

func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{width: 100}
	}
	s := screen{terminal: true, color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", width: 80}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.width = width
	}
	return s
}

// strong returns text in bold green.
func (s screen) strong(text string) string {
	if !s.color {
		return text
	}
	return "\x1b[1;32m" + text + "\x1b[0m"
}
