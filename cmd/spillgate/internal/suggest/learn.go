package suggest

import (
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/rulefile"
)

// A learner records the requests of each client.
type learner struct {
	options  Options
	requests *replay.Requests
	limiter  *core.Limiter
	key      string // of the request that was checked last
	keyErr   error
	applies  bool

	report  Report
	index   map[string]int
	clients []client

	histogram histogram
	now       int64 // does not go back, as in a replay
	whole     bool  // all times are whole seconds
}

// A client is a key with the instants of its requests.
type client struct {
	key      string
	first    int64
	last     int64
	requests int
	events   []byte // the microseconds from each request to the next
}

// newLearner returns a learner of the requests that the first rule of a file applies to.
func newLearner(f *rulefile.File, o Options) (*learner, error) {
	l := &learner{options: o, requests: replay.NewRequests(f), index: make(map[string]int), whole: true}
	rule := f.Rules[0]
	key := rule.Key
	rule.Cost = func(r *http.Request) int { // a cost of 0 makes no claim: the learner only needs to know whether the rule applies
		l.applies = true
		l.key, l.keyErr = key(r)
		return 0
	}
	var err error
	l.limiter, err = core.New([]core.Rule{rule})
	return l, err
}

func (l *learner) add(e *accesslog.Entry) error {
	if l.options.SkipStatus[e.Status] {
		l.report.Skipped++
		return nil
	}
	l.now = max(l.now, replay.InstantOf(e, l.options.AtStart).UnixMicro())
	l.requests.Set(e)
	l.applies = false
	_, err := l.limiter.Check(&l.requests.Request)
	switch {
	case err != nil:
		return err
	case !l.applies:
		l.report.Others++
	case l.keyErr != nil:
		l.report.Keyless++
		l.report.Error = l.keyErr.Error()
	default:
		l.record()
		l.whole = l.whole && e.Seconds
	}
	return nil
}

// record records a request of l.key.
func (l *learner) record() {
	rep := &l.report
	if rep.Requests == 0 {
		rep.From, l.histogram.from = time.UnixMicro(l.now).UTC(), l.now
	}
	rep.To = time.UnixMicro(l.now).UTC()
	rep.Requests++
	l.histogram.add(l.now)
	i, known := l.index[l.key]
	if !known {
		i = len(l.clients)
		key := strings.Clone(l.key)
		l.index[key] = i
		l.clients = append(l.clients, client{key: key, first: l.now, last: l.now, requests: 1})
		return
	}
	c := &l.clients[i]
	c.events = binary.AppendUvarint(c.events, uint64(l.now-c.last))
	c.last = l.now
	c.requests++
}

// instants yields the instants of the requests of c.
func (c *client) instants(yield func(int64) bool) {
	at, rest := c.first, c.events
	for yield(at) && len(rest) > 0 {
		passed, n := binary.Uvarint(rest)
		at, rest = at+int64(passed), rest[n:]
	}
}
