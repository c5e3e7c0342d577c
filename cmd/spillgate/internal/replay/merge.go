// Package replay decides the requests of access logs with a limiter on the clock of the log.
//
//	report, err := replay.Run(ctx, file, []replay.Source{log}, replay.Options{Knows: log.Knows})
//
// Reading order: run.go (the report), order.go and merge.go (entries in order), player.go (an entry is decided),
// requests.go (entry to request), held.go (what requests hold until they end), even.go (the same with whole seconds),
// timeline.go, hardness.go.
package replay

import (
	"errors"
	"io"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
)

// A Source yields entries, and io.EOF after the last. An accesslog.Reader is one.
type Source interface {
	Next(*accesslog.Entry) error
}

// merge yields the entries of several sources in the order of their ends.
type merge struct {
	heads []head
	last  int // the source whose head was yielded, or -1
}

// A head is the next entry of a source.
type head struct {
	source Source
	entry  accesslog.Entry
	end    time.Time
	done   bool
}

func newMerge(sources []Source) (*merge, error) {
	m := &merge{heads: make([]head, len(sources)), last: -1}
	for i, s := range sources {
		m.heads[i].source = s
		if err := m.heads[i].read(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (h *head) read() error {
	err := h.source.Next(&h.entry)
	if errors.Is(err, io.EOF) {
		h.done = true
		return nil
	}
	h.end = h.entry.End()
	return err
}

// next returns the next entry, which is valid until the next call, or nil after the last.
func (m *merge) next() (*accesslog.Entry, error) {
	if m.last >= 0 {
		if err := m.heads[m.last].read(); err != nil {
			return nil, err
		}
	}
	m.last = -1
	for i := range m.heads {
		if h := &m.heads[i]; !h.done && (m.last < 0 || h.end.Before(m.heads[m.last].end)) {
			m.last = i
		}
	}
	if m.last < 0 {
		return nil, nil
	}
	return &m.heads[m.last].entry, nil
}

// startOf returns when a request began or, if that is unknown, when it ended.
func startOf(e *accesslog.Entry) time.Time {
	if !e.Started && e.Duration > 0 {
		return e.At.Add(-e.Duration)
	}
	return e.At
}
