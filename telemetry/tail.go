package telemetry

import "context"

// tick writes the lines that are due about pending denials and warnings, as far as this second has room for lines.
func (b *logbook) tick(ctx context.Context, second int64, rules []*rule) {
	for _, r := range rules {
		for _, line := range r.due(b, second) {
			b.write(ctx, line)
		}
	}
	b.warnings(ctx, func(s *stream) bool { return b.due(s, second) })
	b.writeLeft(ctx, second, 1)
}

// due takes the lines that are due from r: one for the rest of the rule, and one for each key.
func (r *rule) due(b *logbook, second int64) (lines []denial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rest > 0 && b.quietSince(r.restAt, second) && b.allow(second, 1) {
		lines = append(lines, denial{rule: r.name, suppressed: r.rest - 1})
		r.rest, r.restAt = 0, b.clock.elapsed()
	}
	if r.pending == 0 {
		return lines
	}
	for _, e := range r.top.heap {
		switch {
		case e.pending == 0 || !b.quietSince(e.line, second):
			continue
		case b.allow(second, 1):
			lines = append(lines, denial{rule: r.name, key: b.mask.key(e), suppressed: e.pending - 1})
			e.line = b.clock.elapsed()
		default:
			r.rest += e.pending
		}
		r.pending -= e.pending
		e.pending = 0
	}
	return lines
}

// flush writes everything that is pending, whether or not it is due: the warnings, one line for each denied key as long as
// there is room in this second, then one line for each rule, and a last line for the rest.
func (b *logbook) flush(ctx context.Context, second int64, rules []*rule) {
	b.flushWarnings(ctx, second)
	for _, r := range rules {
		lines, rest := r.takeAll(b, second)
		for _, line := range lines {
			b.write(ctx, line)
		}
		b.mu.Lock()
		b.left += rest
		b.mu.Unlock()
	}
	b.writeLeft(ctx, second, 0)
}

// flushWarnings writes a line about each stream as long as there is room in this second, and adds up the others of each
// message in one line.
func (b *logbook) flushWarnings(ctx context.Context, second int64) {
	left := make(map[warning]bool)
	b.mu.Lock()
	for about, s := range b.streams {
		if s.pending > 0 {
			left[about.warning] = true
		}
	}
	b.mu.Unlock()
	b.warnings(ctx, func(s *stream) bool { return s.pending > 0 && b.allowLocked(second, 1+len(left)) })
	b.mu.Lock()
	for about, s := range b.streams {
		if s.pending > 0 && about.rule != other {
			rest := b.stream(subject{about.warning, other})
			rest.pending, rest.err = rest.pending+s.pending, s.err
			s.pending = 0
		}
	}
	b.mu.Unlock()
	b.warnings(ctx, func(s *stream) bool { return s.pending > 0 && b.allowLocked(second, 1) })
}

// writeLeft writes a line about the denials that flush had no room for, if room for reserve lines remains.
func (b *logbook) writeLeft(ctx context.Context, second int64, reserve int) {
	b.mu.Lock()
	line := denial{rule: other, suppressed: b.left - 1}
	due := b.left > 0 && b.allowLocked(second, reserve)
	if due {
		b.left = 0
	}
	b.mu.Unlock()
	if due {
		b.write(ctx, line)
	}
}

// takeAll takes all pending denials of r as lines, and the number of those for which there is no room in this second.
func (r *rule) takeAll(b *logbook, second int64) (lines []denial, left uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.top.heap {
		if e.pending > 0 && b.allow(second, 2) {
			lines = append(lines, denial{rule: r.name, key: b.mask.key(e), suppressed: e.pending - 1})
			e.line = b.clock.elapsed()
		} else {
			r.rest += e.pending
		}
		e.pending = 0
	}
	r.pending = 0
	if r.rest > 0 && b.allow(second, 1) {
		lines = append(lines, denial{rule: r.name, suppressed: r.rest - 1})
		r.rest, r.restAt = 0, b.clock.elapsed()
	}
	left, r.rest = r.rest, 0
	return lines, left
}

// warnings writes a line about each stream for which due reports true. Due is called with b.mu held.
func (b *logbook) warnings(ctx context.Context, due func(*stream) bool) {
	type pending struct {
		about subject
		stream
	}
	var all []pending
	b.mu.Lock()
	for about, s := range b.streams {
		if due(s) {
			all = append(all, pending{about, *s})
			s.line, s.pending = b.clock.elapsed(), 0
		}
	}
	b.mu.Unlock()
	for _, p := range all {
		b.writeWarning(ctx, p.about, p.err, p.pending-1)
	}
}
