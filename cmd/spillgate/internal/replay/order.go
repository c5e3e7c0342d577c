package replay

import (
	"container/heap"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
)

// Order returns a function that yields the entries of sources in the order of their ends or, atStart, of their starts,
// and nil after the last. An entry is valid until the next call. Entries with the same instant keep their order, and
// sources keep the order of the arguments.
func Order(sources []Source, atStart bool) (next func() (*accesslog.Entry, error), err error) {
	m, err := newMerge(sources)
	if err != nil {
		return nil, err
	}
	if atStart {
		return (&byStart{merge: m}).next, nil
	}
	return m.next, nil
}

// InstantOf returns when a request is decided.
func InstantOf(e *accesslog.Entry, atStart bool) time.Time {
	if atStart {
		return startOf(e)
	}
	return e.End()
}

// Requests are logged when they end, so a request that began earlier may come later in the log. byStart keeps requests
// back for maxDuration, but at most maxWaiting of them.
const (
	maxDuration = time.Minute
	maxWaiting  = 500_000
)

// byStart yields the entries of a merge in the order of their starts.
type byStart struct {
	merge *merge
	queue startQueue
	read  int64
	end   time.Time // end of the last entry read
	done  bool
}

func (b *byStart) next() (*accesslog.Entry, error) {
	for !b.done && (len(b.queue) == 0 || len(b.queue) < maxWaiting && b.end.Sub(b.queue[0].start) < maxDuration) {
		e, err := b.merge.next()
		if err != nil {
			return nil, err
		}
		if b.done = e == nil; b.done {
			break
		}
		w := &waiting{entry: *e, start: startOf(e), number: b.read}
		w.entry.Header = cloneHeader(e.Header)
		b.read, b.end = b.read+1, e.End()
		heap.Push(&b.queue, w)
	}
	if len(b.queue) == 0 {
		return nil, nil
	}
	return &heap.Pop(&b.queue).(*waiting).entry, nil
}

// cloneHeader copies a header, which a parser will reuse.
func cloneHeader(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	return h.Clone()
}

type waiting struct {
	entry  accesslog.Entry
	start  time.Time
	number int64
}

// startQueue is a heap of entries by start.
type startQueue []*waiting

func (q startQueue) Len() int      { return len(q) }
func (q startQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q startQueue) Less(i, j int) bool {
	if q[i].start.Equal(q[j].start) {
		return q[i].number < q[j].number
	}
	return q[i].start.Before(q[j].start)
}
func (q *startQueue) Push(x any) { *q = append(*q, x.(*waiting)) }
func (q *startQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
