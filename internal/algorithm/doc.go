// Package algorithm measures requests by a limit, in whole numbers: state in, state out.
//
//	s := algorithm.State{Limit: &limit, Stored: record, Now: now}
//	s.Open()
//	if wait := s.WaitFor(cost, 0); wait == 0 {
//		limit.Row.Charge(&s, cost)
//	}
//	s.Report(&usage, 0)
//
// It has no clock, no lock and no I/O. Instants are microseconds since the Unix epoch. The Lua files of internal/redisx
// have the functions of Row under the same names, and tests compare both with internal/oracle.
package algorithm
