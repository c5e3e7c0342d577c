package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A Reader reads the entries of a log.
type Reader struct {
	Name    string
	Format  string // in use
	Timed   bool   // the first entries have durations
	Lines   int    // read
	Entries int
	Others  int       // lines that are not about requests
	Bad     []BadLine // the first lines that could not be read
	BadSum  int

	lines  lines
	parser Parser
}

// A BadLine is a line that could not be read, and why.
type BadLine struct {
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// keptBad is how many bad lines a Reader keeps.
const keptBad = 10_000

// NewReader returns a reader of a log, which may be compressed by gzip or zstd.
func NewReader(name string, r io.Reader, o Options) (*Reader, error) {
	plain, err := decompress(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	reader := &Reader{Name: name, lines: lines{in: plain}}
	first := reader.lines.first()
	if o.Format == "" {
		if o.Format, err = Detect(first, o.Fields); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	reader.Format = o.Format
	if reader.parser, err = NewParser(o); err != nil {
		return nil, err
	}
	reader.Timed = timed(first, o)
	return reader, nil
}

// timed reports whether one of lines has a duration.
func timed(lines []string, o Options) bool {
	p, err := NewParser(o)
	for _, line := range lines {
		var e Entry
		if err == nil && p.Parse(line, &e) == nil && e.Duration >= 0 {
			return true
		}
	}
	return false
}

// decompress returns a reader of r that decompresses gzip and zstd.
func decompress(r *bufio.Reader) (io.Reader, error) {
	magic, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(r)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	}
	return r, nil
}

// Knows reports whether entries have this field of the request's header.
func (r *Reader) Knows(header string) bool { return r.parser.Knows(header) }

// Next sets e to the next entry, or returns io.EOF. The strings of an entry stay valid, but each of them keeps a block
// of the log in memory. Its Header is valid until the next call. Next counts lines that it cannot read, and adds them
// to Bad.
func (r *Reader) Next(e *Entry) error {
	for {
		line, err := r.lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return err
		case err != nil && !errors.Is(err, errTooLong):
			return fmt.Errorf("%s: after line %d: %w", r.Name, r.Lines, err)
		}
		r.Lines++
		if line == "" && err == nil {
			continue
		}
		if err == nil {
			err = r.parser.Parse(line, e)
		}
		switch {
		case err == nil:
			r.Entries++
			return nil
		case errors.Is(err, errSkip):
		case errors.Is(err, ErrNotRequest):
			r.Others++
		default:
			r.bad(err)
		}
	}
}

func (r *Reader) bad(err error) {
	if r.BadSum++; len(r.Bad) < keptBad {
		r.Bad = append(r.Bad, BadLine{r.Lines, err.Error()})
	}
}
