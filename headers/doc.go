// Package headers describes a decision to the client in response headers.
//
//	stdlib.New(limiter, stdlib.WithHeaders(headers.Join(headers.GitHub, headers.IETF)))
//
// A Writer sets the fields of one convention. GitHub is the default of the adapters, because most client libraries
// understand it. IETF is the draft that is to become the standard. Join sets both.
//
// GitHub and Custom show one limit, the tightest that is enforced: see core.Decision.Tightest. Dry runs are never shown,
// and a decision that enforced nothing sets nothing. All fields of a response follow from one instant, Decision.At.
// Each field has one value, which replaces what was set before. Writers keep no state and are safe for concurrent use.
package headers
