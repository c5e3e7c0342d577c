// Package stdlib limits requests to an http.Handler.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	http.ListenAndServe(addr, stdlib.New(limiter)(mux))
//
// An admitted request carries the decision in its context: see core.FromContext. The headers that WithHeaders chooses
// are set before the next handler runs. The ResponseWriter is unchanged, unless a rule with CostAfter applies: the
// adapter then wraps it, with the same optional interfaces. Around a ResponseWriter that is not net/http's, it also has
// io.ReaderFrom and io.StringWriter.
//
// A denied request gets status 429, or 413 if it costs more than the limit can ever admit, with an RFC 9457 problem in
// JSON. A request without a key gets 400. A request that could not be decided gets 503 if the store is down and a rule
// fails closed, or the fallback is down too, or if its context ends while it waits for its turn. Otherwise it gets 500. No
// response contains the key or the text of an error. To log the error, use WithErrorHandler.
//
// Limiters nest: each decides by itself, and the headers show the tighter one. The same limiter mounted twice charges each
// rule once. If a handler routes the request again, such as http.StripPrefix around another mount, the limiter charges the
// rules of the new path.
//
// The route pattern is known directly around an http.ServeMux and inside one. Elsewhere, a rule that needs it, such as
// a rule with keyfunc.Pattern, fails each request with status 500, and the error says where to mount the limiter.
package stdlib
