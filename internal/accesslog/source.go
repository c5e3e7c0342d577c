package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxLine is how long a line may be.
const maxLine = 1 << 20

// A Reader reads the entries of a log.
type Reader struct {
	Name    string
	Format  string // in use
	Timed   bool   // the first entries say how long their requests took
	Lines   int    // read
	Entries int
	Others  int       // lines about no request
	Bad     []BadLine // the first that could not be read
	BadSum  int

	lines  *bufio.Reader
	parser Parser
}

// A BadLine is a line that could not be read, and why.
type BadLine struct {
	Line int    `json:"line"`
	Why  string `json:"why"`
}

const keptBad = 10_000

// NewReader returns a reader of a log, which may be compressed by gzip or zstd.
func NewReader(name string, r io.Reader, o Options) (*Reader, error) {
	plain, err := decompress(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	reader := &Reader{Name: name, lines: bufio.NewReaderSize(plain, 256<<10)}
	first := reader.firstLines()
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

// timed reports whether one of some lines says how long its request took.
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

// decompress returns the contents of r by its first bytes.
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

// firstLines returns up to 20 lines without reading them.
func (r *Reader) firstLines() (lines []string) {
	head, _ := r.lines.Peek(64 << 10)
	for line := range strings.Lines(string(head)) {
		if text, ok := strings.CutSuffix(line, "\n"); len(lines) < 20 && (ok || len(head) < 64<<10) && text != "" {
			lines = append(lines, strings.TrimSuffix(text, "\r"))
		}
	}
	return lines
}

// Knows reports whether entries have this field of the request's header.
func (r *Reader) Knows(header string) bool { return r.parser.Knows(header) }

// Next sets e to the next entry, or returns io.EOF. Lines that cannot be read are counted and named in Bad.
func (r *Reader) Next(e *Entry) error {
	for {
		line, err := r.line()
		if err != nil {
			return err
		}
		if line == "" {
			continue
		}
		switch err := r.parser.Parse(line, e); {
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

// line returns the next line that is not too long.
func (r *Reader) line() (string, error) {
	for {
		line, err := r.lines.ReadSlice('\n')
		if len(line) == 0 && err != nil {
			if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s: after line %d: %w", r.Name, r.Lines, err)
			}
			return "", err
		}
		r.Lines++
		if !errors.Is(err, bufio.ErrBufferFull) {
			return trimEnd(string(line)), nil
		}
		long, whole := r.longLine(bytes.Clone(line))
		if whole {
			return trimEnd(long), nil
		}
		r.bad(fmt.Errorf("the line is longer than %d bytes", maxLine))
	}
}

// longLine reads the rest of a line. It is not whole if it is too long.
func (r *Reader) longLine(line []byte) (string, bool) {
	whole := true
	for {
		more, err := r.lines.ReadSlice('\n')
		if whole = whole && len(line)+len(more) <= maxLine; whole {
			line = append(line, more...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(line), whole
		}
	}
}

func trimEnd(line string) string { return strings.TrimRight(line, "\r\n") }
