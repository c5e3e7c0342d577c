package algorithm

// A State is the state of one limit of one key while a store decides. The store sets the fields above Bucket. Load unpacks
// Stored into Bucket or Window, or advances Log: each algorithm uses one of the three.
type State struct {
	Limit  *Limit  // that the request names
	Stored *Packed // the state as it is stored; an empty one if none is
	Log    *Log    // of a sliding limit; may be empty, but is never nil
	Now    int64
	Offset int64 // how far the wall clock is ahead of Now
	Own    bool  // no other pair shares the state
	Peek   bool  // the request charges nothing
	Bucket RatedBucket
	Window Window
}

// A Packed is a State as the memory store keeps it for one limit of one key: 32 bytes without a pointer. What a
// field means depends on the algorithm; the last bits of Kind are the Code of its Row.
//
//	       Kind                              Level   At            Rate          Extra
//	bucket Kind | tick | slowest rate << 53  level   instant       rate | held   At - Busy
//	window Kind                              used    start         held | granted  seconds of the window
//	log    Kind                              used    newest stamp  held          number of its Log in the store, or 0
type Packed struct {
	Kind  uint64
	Level int64
	At    int64
	Rate  uint32
	Extra uint32
}

const (
	kindBits  = 1<<slowestAt - 1
	codeBits  = 1<<4 - 1 // of a Kind: Row.Code
	tickBits  = 3        // buckets keep their tick where other algorithms have the last bits of their code
	slowestAt = 53

	// heldBit marks states that a held claim has named since the pair last held nothing. They are charged when its
	// holds end, even if they are empty.
	heldBit = 1 << 31
)

// Is reports whether p is the state of a limit of kind. Only buckets have a code of 0, and the codes up to tickBits are
// theirs.
func (p *Packed) Is(kind uint64) bool {
	other := p.Kind&kindBits ^ kind
	return other == 0 || other <= tickBits && kind&codeBits == 0 && kind > codeBits
}

// IsLimit reports whether p is the state of a limit, and not of a pair: see HoldKind.
func (p *Packed) IsLimit() bool { return p.Kind&kindBits > codeBits }

// Row returns the algorithm of p, which IsLimit.
func (p *Packed) Row() *Row { return rowOf[p.Kind&codeBits] }

// micros returns the period of the limit of p: a number from firstCalendar on for a calendar.
func (p *Packed) micros() int64 { return int64(p.Kind & kindBits >> 4) }

// IsHeld reports whether a held claim has named the limit of p. See Hold.
func (p *Packed) IsHeld() bool { return p.Rate&heldBit != 0 }

// Hold notes that a held claim has named the limit of p.
func (p *Packed) Hold() { p.Rate |= heldBit }

// Release notes that the pair holds nothing.
func (p *Packed) Release() { p.Rate &^= heldBit }

// isOf reports whether p is a bucket in the ticks of l that knows no rate other than l's, which is not 0.
func (p *Packed) isOf(l *Limit) bool {
	return p.Kind == l.Kind|l.Code && int64(p.Rate&^heldBit) == l.Rate && l.Rate > 0
}

// Follows reports whether NameRate, at now, would leave p unchanged: l has the rate that was named last, and the clock has
// not gone back. It may be false for a state that NameRate would not change.
func (p *Packed) Follows(l *Limit, now int64) bool {
	return int64(p.Rate&^heldBit) == l.Rate && p.At <= now
}

func (p *Packed) plainBucket() Bucket {
	return Bucket{Level: p.Level, At: p.At, Busy: p.At - int64(p.Extra)}
}

// bucket returns the state of a TokenBucket.
func (p *Packed) bucket() RatedBucket {
	return RatedBucket{
		Bucket: p.plainBucket(),
		Unit:   Units[p.Kind&tickBits], Rate: int64(p.Rate &^ heldBit), Slowest: UnpackRate(p.Kind >> slowestAt),
	}
}

// setBucket stores b, which counts in ticks of l.
func (p *Packed) setBucket(b *RatedBucket, l *Limit) {
	p.Kind = l.Kind | l.Code | PackRate(b.Slowest)<<slowestAt
	p.Rate = uint32(b.Rate) | p.Rate&heldBit
	p.Level, p.At, p.Extra = b.Level, b.At, uint32(min(max(0, b.At-b.Busy), MaxBusy))
}

// window returns the state of a FixedWindow.
func (p *Packed) window() Window {
	length := p.micros()
	if length >= firstCalendar {
		length = int64(p.Extra) * 1_000_000
	}
	return Window{Used: p.Level, Granted: p.granted(), Start: p.At, End: p.At + length}
}

func (p *Packed) setWindow(w Window) {
	p.Level, p.At, p.Extra = w.Used, w.Start, uint32((w.End-w.Start)/1_000_000)
	p.setGranted(w.Granted)
}

// granted returns the requests granted to a window: a number in two's complement below heldBit.
func (p *Packed) granted() int64 { return int64(int32(p.Rate<<1) >> 1) }

func (p *Packed) setGranted(n int64) { p.Rate = uint32(n)&^heldBit | p.Rate&heldBit }

// setLog updates the fields of p from its log g. A grant counts as one entry.
func (p *Packed) setLog(g *Log) {
	p.Level, p.At = g.Used(), g.Last()
	if n := len(g.grants); n > 0 {
		p.Level, p.At = max(p.Level, 1), max(p.At, g.grants[n-1].ends-p.micros())
	}
}
