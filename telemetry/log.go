package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
)

const (
	linesPerSecond = 10
	quiet          = 10 * time.Second // between two lines about the same thing
)

// A warning is the message of a log line that is not about denials.
type warning string

const (
	withoutStore     warning = "decided without the store"
	noDecision       warning = "no decision: the store is unavailable"
	keyMissing       warning = "no decision: the request has no key"
	keyBad           warning = "no decision: the key is ambiguous or malformed"
	ruleInvalid      warning = "no decision: a rule or its callback failed"
	settlementFailed warning = "settlement failed"
	finalFailed      warning = "no final cost: a CostAfter failed, what was held is charged"
	denialMessage            = "denied"
)

// warningOf has the warning about each outcome of a request that was not decided.
var warningOf = [outcomes]warning{noKey: keyMissing, badKey: keyBad, invalid: ruleInvalid, unavailable: noDecision}

// level is Error for a mistake of the application, and Warn for anything else.
func (w warning) level() slog.Level {
	if w == ruleInvalid || w == finalFailed {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// A logbook writes at most linesPerSecond lines in a second.
type logbook struct {
	log   *slog.Logger
	mask  masker
	clock *clock

	mu      sync.Mutex
	second  int64
	lines   int    // in that second
	left    uint64 // denials of all rules that no line accounts for
	streams map[subject]*stream
}

// A subject is the topic of a stream.
type subject struct {
	warning warning
	rule    string
}

// A stream is a sequence of warnings about one subject.
type stream struct {
	line    time.Duration // time of the last line since the start; 0: none was written
	pending uint64        // warnings since the last line
	err     error         // the last one
}

func newLogbook(l *slog.Logger, m masker, c *clock) *logbook {
	return &logbook{log: l, mask: m, clock: c, streams: make(map[subject]*stream)}
}

// allow reports whether another line may be written in a second. It leaves room for reserve lines. The caller holds b.mu
// or the lock of a rule.
func (b *logbook) allow(second int64, reserve int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.allowLocked(second, reserve)
}

func (b *logbook) allowLocked(second int64, reserve int) bool {
	if second > b.second { // a decision may be counted in an earlier second than a flush before it
		b.second, b.lines = second, 0
	}
	if b.lines+reserve >= linesPerSecond {
		return false
	}
	b.lines++
	return true
}

// A denial is a log line about one denial and the denials that were suppressed.
type denial struct {
	rule, key, limit string
	retryAfter       time.Duration
	suppressed       uint64
}

func (b *logbook) write(ctx context.Context, d denial) {
	attrs := []slog.Attr{slog.String("rule", d.rule)}
	if d.key != "" {
		attrs = append(attrs, slog.String("key", d.key))
	}
	if d.limit != "" {
		attrs = append(attrs, slog.String("limit", d.limit), slog.Duration("retry_after", d.retryAfter))
	}
	attrs = append(attrs, slog.Uint64("suppressed", d.suppressed))
	b.log.LogAttrs(ctx, slog.LevelInfo, denialMessage, attrs...)
}

// warn logs an error, or counts it if a line about the subject was written recently.
func (b *logbook) warn(ctx context.Context, second int64, w warning, rule string, err error) {
	b.mu.Lock()
	about := subject{w, rule}
	if b.streams[about] == nil && len(b.streams) >= maxRules { // claims of Take can name any rule
		about.rule = other
	}
	s := b.stream(about)
	s.pending++
	s.err = err
	due := b.due(s, second)
	suppressed := s.pending - 1
	if due {
		s.line, s.pending = b.clock.elapsed(), 0
	}
	b.mu.Unlock()
	if due {
		b.writeWarning(ctx, about, err, suppressed)
	}
}

// stream returns the stream about a subject. The caller holds b.mu.
func (b *logbook) stream(about subject) *stream {
	s := b.streams[about]
	if s == nil {
		s = new(stream)
		b.streams[about] = s
	}
	return s
}

// due reports whether to write a line of s now. The caller holds b.mu.
func (b *logbook) due(s *stream, second int64) bool {
	return s.pending > 0 && b.quietSince(s.line, second) && b.allowLocked(second, 1)
}

// quietSince reports whether another line about a subject may be written, if the last one was written at line.
func (b *logbook) quietSince(line time.Duration, second int64) bool {
	return line == 0 || b.clock.passed(line, quiet, second)
}

func (b *logbook) writeWarning(ctx context.Context, about subject, err error, suppressed uint64) {
	attrs := []slog.Attr{slog.String("rule", about.rule), slog.Any("error", err), slog.Uint64("suppressed", suppressed)}
	var p panicked
	if errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack())))
	}
	b.log.LogAttrs(ctx, about.warning.level(), string(about.warning), attrs...)
}

// panicked is the error of a callback that panicked.
type panicked interface {
	error
	Stack() []byte
}

// deny counts a denial of key in the top of r, and logs it if a line is due.
func (r *rule) deny(ctx context.Context, b *logbook, second int64, key string, result *core.Result) {
	r.mu.Lock()
	e, evicted := r.top.add(key)
	if b == nil {
		r.mu.Unlock()
		return
	}
	r.pending -= evicted
	r.rest += evicted
	if !b.quietSince(e.line, second) {
		e.pending++
		r.pending++
		r.mu.Unlock()
		return
	}
	if !b.allow(second, 1) {
		r.rest++
		r.mu.Unlock()
		return
	}
	line := denial{r.name, b.mask.key(e), result.Limit.String(), result.RetryAfter, e.pending}
	r.pending -= e.pending
	e.line, e.pending = b.clock.elapsed(), 0
	r.mu.Unlock()
	b.write(ctx, line)
}
