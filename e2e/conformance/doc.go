// Package conformance runs the conformance suite of Connect, gRPC and gRPC-Web against its reference server: alone, and behind each
// adapter with a rule that needs to know how calls end.
package conformance
