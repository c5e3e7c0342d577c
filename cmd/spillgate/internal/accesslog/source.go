package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A Reader reads the entries of a log.
type Reader struct {
	Name    string
	Format  string // in use, or "" if the log is empty
	First   Sample
	Lines   int // read
	Entries int
	Older   int       // entries that ended more than a minute before one that was read earlier
	Others  int       // lines that are not about requests
	Bad     []BadLine // the first lines that could not be read
	BadSum  int

	lines  lines
	parser Parser
	last   time.Time // the latest end of an entry
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
	first, err := reader.first()
	if errors.Is(err, io.EOF) && o.Format == "" {
		return reader, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = reader.begin(first, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return reader, nil
}

// first returns the first lines for begin. If the first block ends before its first line does, it counts the lines
// before the first that is neither empty nor too long.
func (r *Reader) first() (first []string, err error) {
	for first, err = r.lines.first(); err == nil && len(first) == 0; {
		line, next := r.lines.next()
		if line != "" {
			r.lines.text = line + "\n" + r.lines.text
			return r.lines.first()
		}
		if err = next; errors.Is(err, errTooLong) {
			r.Lines++
			r.bad(err)
			first, err = r.lines.first()
		} else if err == nil {
			r.Lines++
		}
	}
	return first, err
}

// wrappers are fields of JSON objects that have a line as its program wrote it: of Docker and Fluent Bit, of Logstash and
// Filebeat, and of journald.
var wrappers = []string{"log", "message", "MESSAGE"}

// begin chooses the format by the first lines. If they are in none, it looks for them in JSON.
func (r *Reader) begin(first []string, o Options) error {
	err := r.beginWith(first, o)
	for _, field := range wrappers {
		if r.First.Entries > 0 {
			break
		}
		wrapped := lines{text: r.lines.text, err: r.lines.err, wrapper: field}
		if first, none := wrapped.first(); none == nil && r.beginWith(first, o) == nil && r.First.Entries > 0 {
			r.lines.wrapper, err = field, nil
		}
	}
	if r.First.Entries == 0 && err == nil {
		err = r.beginWith(first, o)
	}
	return err
}

// beginWith sets the format, the parser and the sample.
func (r *Reader) beginWith(first []string, o Options) (err error) {
	if o.Format == "" {
		if o.Format, err = Detect(first[:min(len(first), 100)], o.Fields); err != nil {
			return err
		}
	}
	if r.parser, err = NewParser(o); err != nil {
		return err
	}
	r.Format, r.First = o.Format, Sample{}
	for _, line := range first {
		var e Entry
		if r.parser.Parse(line, &e) == nil {
			r.First.Entries++
			r.First.Timed, r.First.Statuses = r.First.Timed || e.Duration >= 0, r.First.Statuses || e.Status > 0
		}
	}
	if n, ok := r.parser.(interface{ inSeconds() bool }); ok {
		o.seconds = n.inSeconds()
	}
	r.parser, err = NewParser(o)
	return err
}

// A Sample says what the first entries of a log have.
type Sample struct {
	Entries  int
	Timed    bool // one has a duration
	Statuses bool // one has a status
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
func (r *Reader) Knows(header string) bool { return r.Format == "" || r.parser.Knows(header) }

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
			r.note(e.End())
			return nil
		case errors.Is(err, errSkip):
		case errors.Is(err, ErrNotRequest):
			r.Others++
		default:
			r.bad(err)
		}
	}
}

// Unsorted reports whether a log is not sorted by time. In a sorted log a few entries may be older than one before them:
// Apache writes the line of a request when it has ended, with the time at which it began.
func (r *Reader) Unsorted() bool { return r.Older > 1+r.Entries/100 }

// note counts an entry that is older than the ones before it.
func (r *Reader) note(end time.Time) {
	if end.After(r.last) {
		r.last = end
	} else if r.last.Sub(end) > time.Minute {
		r.Older++
	}
}

func (r *Reader) bad(err error) {
	if r.BadSum++; len(r.Bad) < keptBad {
		r.Bad = append(r.Bad, BadLine{r.Lines, err.Error()})
	}
}
