// Package algorithm measures requests by a limit, in whole numbers: state in, state out.
//
//	l, ok := algorithm.Compile(algorithm.Limit{Algorithm: algorithm.TokenBucket, Rate: 10, Capacity: 10, Micros: 1_000_000})
//	b := algorithm.RatedBucket{Unit: 1}.Advance(&l, now)
//	if b.Admits(&l, cost) {
//		b.Bucket = b.Charge(&l, now, cost)
//	}
//	u := b.Report(&l, b.Rate, now)
//
// It has no clock, no lock and no I/O. Instants are microseconds since the Unix epoch. Advance a state to now, as the Load
// of a Row does, before you ask, charge or report it. The Lua files of internal/redisx have the functions of Row under the same names, and tests
// compare both with internal/oracle.
package algorithm
