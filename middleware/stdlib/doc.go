// Package stdlib limits requests to an http.Handler.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	http.ListenAndServe(addr, stdlib.New(limiter)(mux))
//
// A request that is admitted is passed on with the decision in its context: see core.FromContext. The ResponseWriter is
// passed on untouched, unless a rule with CostAfter applies: then it is wrapped, with the same optional interfaces. Before the
// next handler runs, the response has the headers that WithHeaders chooses.
//
// A request that is denied gets status 429 and an RFC 9457 problem in JSON; 413 if it costs more than is ever admitted
// at once. A request without a key gets 400, one that cannot be decided 503 if a rule fails closed, and 500 otherwise.
// No answer contains the key or the text of an error. To see the error, use WithErrorHandler.
//
// Limiters nest: each decides by itself, and the headers show the tighter. The same limiter mounted twice charges each
// rule once. If a handler routes the request again, such as http.StripPrefix around another mount, the limiter charges the rules of
// the new path.
//
// The route pattern is known directly around an http.ServeMux and inside one. Elsewhere, a rule that asks for it, such as
// one with keyfunc.Pattern, fails each request with status 500, and the error says where to mount the limiter.
package stdlib
