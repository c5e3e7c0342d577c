package core

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
)

// reportInterval is the shortest time between two log lines about the same kind of failure of a rule.
const reportInterval = 10 * time.Second

// A reporter logs failures that are no fault of the store: requests that were not decided, and observers that panic. Each
// kind of failure of a rule is logged when it first occurs and then at most once per reportInterval.
type reporter struct {
	logger *slog.Logger // nil: slog.Default()

	mu    sync.Mutex
	lines map[failureKind]failureLine // bounded by the names of rules
	costs []string                    // the rule names that costIgnored has logged
}

// Failures of one failureKind are counted and logged together.
type failureKind struct {
	rule string
	err  error // ErrNoKey, ErrBadKey, or nil for all other errors
	msg  string
}

type failureLine struct {
	next       time.Time // when the next line may be written
	suppressed int       // failures since the last line
}

// log returns the logger; the default is looked up at each call.
func (p *reporter) log() *slog.Logger {
	if p.logger != nil {
		return p.logger
	}
	return slog.Default()
}

const (
	notDecided  = "spillgate: request not decided"
	finalFailed = "spillgate: the final cost of a request is not known, what was held is charged"
	usageFailed = "spillgate: usage not reported"
)

// failed logs why a request with these claims failed. It does not log that the store is unavailable: noteOutage does.
func (p *reporter) failed(ctx context.Context, msg string, claims []Claim, err error) {
	if errors.Is(err, ErrUnavailable) {
		return
	}
	kind := failureKind{msg: msg}
	if len(claims) > 0 {
		kind.rule = claims[len(claims)-1].Rule
	}
	level := slog.LevelError
	for _, fault := range []error{ErrNoKey, ErrBadKey} {
		if errors.Is(err, fault) {
			kind.err, level = fault, slog.LevelWarn // the client may be at fault
		}
	}
	attrs := []slog.Attr{slog.String("rule", kind.rule), slog.Any("err", err)}
	if callback, ok := breaker.As[*callbackPanic](err); ok {
		attrs = append(attrs, slog.String("stack", string(callback.stack)))
	}
	p.write(ctx, kind, level, attrs)
}

// panicked logs the panic of an observer.
func (p *reporter) panicked(ctx context.Context, v any, stack []byte) {
	attrs := []slog.Attr{slog.Any("panic", v), slog.String("stack", string(stack))}
	p.write(ctx, failureKind{msg: "spillgate: observer panicked"}, slog.LevelError, attrs)
}

// costIgnored logs that SetCost had no effect for a rule name, once for each name.
func (p *reporter) costIgnored(ctx context.Context, rule string, err error) {
	const most = 100 // handlers may take names from requests
	p.mu.Lock()
	due := len(p.costs) < most && !slices.Contains(p.costs, rule)
	if due {
		p.costs = append(p.costs, rule)
	}
	p.mu.Unlock()
	if due {
		p.log().LogAttrs(ctx, slog.LevelWarn, "spillgate: SetCost has no effect", slog.String("rule", rule), slog.Any("err", err))
	}
}

// write logs a failure, or counts it for the next line if the last one about its kind is less than reportInterval old.
func (p *reporter) write(ctx context.Context, kind failureKind, level slog.Level, attrs []slog.Attr) {
	now := time.Now()
	p.mu.Lock()
	line := p.lines[kind]
	due, suppressed := !now.Before(line.next), line.suppressed
	if line.suppressed++; due {
		line = failureLine{next: now.Add(reportInterval)}
	}
	p.lines[kind] = line
	p.mu.Unlock()
	if !due {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	p.log().LogAttrs(ctx, level, kind.msg, attrs...)
}
