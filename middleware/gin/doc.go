// Package ginlimit limits requests to gin.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	r := gin.New()
//	r.Use(ginlimit.New(limiter))
//
// A request that is admitted is passed on with the decision in the context of c.Request: see core.FromContext. The
// c.Writer is passed on untouched. Before the next handler runs, the response has the headers that WithHeaders chooses.
//
// A request that is denied aborts the chain and gets status 429 and an RFC 9457 problem in JSON; 413 if it costs more
// than is ever admitted at once. A request without a key gets 400, one that cannot be decided 503 if a rule fails closed,
// and 500 otherwise. No answer contains the key or the text of an error. To see the error, use WithErrorHandler.
//
// Limiters nest: each decides by itself, and the headers show the tighter. The same limiter mounted twice charges each
// rule once. If a handler routes the request again, the limiter charges the rules of the new route. The route pattern,
// which keyfunc.Pattern uses, is that of c.FullPath with parameters as net/http writes them: "/users/{id}". The key
// funcs of package keyfunc do not use c.ClientIP. If the engine knows your proxies, use ClientIP as a key func. Key
// funcs of your own find the gin.Context with ContextOf.
package ginlimit
