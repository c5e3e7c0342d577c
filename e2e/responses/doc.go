// Package responses checks that a limiter does not get in the way of handlers: they can stream, flush, hijack, upgrade, send early hints and
// trailers, and panic, exactly as they can without a limiter.
package responses
