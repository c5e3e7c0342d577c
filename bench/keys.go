package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/spillgate/spillgate/bench/peers"
)

// A mix draws the index of the next key.
type mix func(r *rand.Rand) int

// uniform draws from n keys with equal probability.
func uniform(n int) mix { return func(r *rand.Rand) int { return r.IntN(n) } }

// zipf draws from n keys with a Zipf distribution of exponent s.
func zipf(s float64, n int) mix {
	var z *rand.Zipf
	return func(r *rand.Rand) int {
		if z == nil {
			z = rand.NewZipf(r, s, 1, uint64(n-1))
		}
		return int(z.Uint64())
	}
}

// ascending draws every key once, in ascending order.
func ascending() mix {
	next := 0
	return func(*rand.Rand) int {
		next++
		return next - 1
	}
}

// sequence returns n keys in the order of m, the same for the same seed.
func sequence(m mix, n int, seed uint64) []string { return sequenceOf(peers.AppendKey, m, n, seed) }

// addresses returns n addresses of clients in the order of m, the same for the same seed.
func addresses(m mix, n int, seed uint64) []string {
	return sequenceOf(func(buf []byte, i int) []byte {
		return fmt.Appendf(buf, "10.%d.%d.%d:4711", i>>16&255, i>>8&255, i&255)
	}, m, n, seed)
}

// sequenceOf returns n texts that add appends. Their bytes lie one after another, so that a text is in the cache when its turn
// comes, as it is in a server that has just parsed it.
func sequenceOf(add func([]byte, int) []byte, m mix, n int, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 1))
	var buf []byte
	ends := make([]int, n)
	for i := range ends {
		buf = add(buf, m(r))
		ends[i] = len(buf)
	}
	all := string(buf)
	keys := make([]string, n)
	start := 0
	for i, end := range ends {
		keys[i] = all[start:end]
		start = end
	}
	return keys
}
