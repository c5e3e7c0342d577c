package redisx

import (
	"cmp"
	"slices"
)

// backs are requests that were charged ahead and are to be given back, by the instant of their charge. A call has room for two
// instants. The zero value is empty.
type backs [2]back

// A back is n requests that were charged at an instant of the store, in microseconds.
type back struct {
	at, n int64
}

// add adds n requests charged at an instant. Of three instants the two earliest are merged into the earliest, which never gives
// back more.
func (b *backs) add(at, n int64) {
	if n == 0 {
		return
	}
	for i := range b {
		if b[i].n == 0 || b[i].at == at {
			b[i] = back{at, b[i].n + n}
			return
		}
	}
	all := []back{b[0], b[1], {at, n}}
	slices.SortFunc(all, func(x, y back) int { return cmp.Compare(x.at, y.at) })
	*b = backs{{all[0].at, all[0].n + all[1].n}, all[2]}
}

// addAll adds all of other.
func (b *backs) addAll(other backs) {
	for _, o := range other {
		b.add(o.at, o.n)
	}
}

// sum returns how many requests are to be given back.
func (b *backs) sum() int64 { return b[0].n + b[1].n }
