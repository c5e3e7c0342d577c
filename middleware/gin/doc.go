// Package ginlimit limits requests to gin.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	r := gin.New()
//	r.Use(ginlimit.New(limiter))
//
// An admitted request carries the decision in the context of c.Request: see core.FromContext. The headers that WithHeaders
// chooses are set before the next handler runs. c.Writer is unchanged, unless a rule with CostAfter applies to a call of
// gRPC or Connect.
//
// A denied request aborts the chain and gets status 429, or 413 if it costs more than the limit can ever admit, with an RFC
// 9457 problem in JSON. A request without a key gets 400. A request that could not be decided gets 503 if the store is down
// and a rule fails closed, or the fallback is down too, or if its context ends while it waits for its turn. Otherwise it
// gets 500. No response contains the key or the text of an error. To log the error, use WithErrorHandler.
//
// Limiters nest: each decides by itself, and the headers show the tighter one. The same limiter mounted twice charges each
// rule once. If a handler routes the request again, the limiter charges the rules of the new route. The route pattern,
// which keyfunc.Pattern uses, is c.FullPath in the notation of net/http: "/users/{id}".
//
// The key funcs of package keyfunc do not use c.ClientIP. If the engine knows your proxies, use ClientIP as a key func.
// Your own key funcs get the gin.Context from ContextOf.
package ginlimit
