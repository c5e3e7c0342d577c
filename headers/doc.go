// Package headers writes a decision to the response headers, so that clients know their limits.
//
//	stdlib.New(limiter, stdlib.WithHeaders(headers.Join(headers.GitHub, headers.IETF)))
//
// A Writer sets the fields of one convention. GitHub is the default of the adapters, because most client libraries
// understand it. IETF follows the draft of a future standard. Join combines writers, for example these two.
//
// GitHub and Custom show one limit, the tightest enforced one: see core.Decision.Tightest. Dry runs are never shown. If
// no limit was enforced, a writer sets nothing. All fields of a response are computed from one instant, Decision.At.
// Each field has one value, which replaces any earlier value. Writers keep no state and are safe for concurrent use.
package headers
