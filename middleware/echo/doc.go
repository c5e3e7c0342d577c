// Package echolimit limits requests to echo, version 4. For version 5, use middleware/echov5.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	e := echo.New()
//	e.Use(echolimit.New(limiter))
//
// An admitted request carries the decision in the context of c.Request(): see core.FromContext. The headers that
// WithHeaders chooses are set before the next handler runs. c.Response() is unchanged. Only a rule with CostAfter needs
// the status. For the requests of such a rule, the adapter watches the writer below c.Response(). If the handler
// returns an error, the adapter calls the HTTPErrorHandler before it returns the error. Inside of http.TimeoutHandler or
// echo's Timeout, it returns nil instead.
//
// For a request that is not admitted, the middleware returns an *echo.HTTPError (use errors.As): 429 if it is denied,
// 413 if it costs more than the limit can ever admit, 400 if it has no key, 503 if the store is down and a rule fails
// closed, or the fallback is down too, or if the request's context ends while it waits for its turn, and 500 for any other
// error. Except for denials, it wraps the cause. So your own HTTPErrorHandler and logging see it like any other error. The
// default HTTPErrorHandler renders an RFC 9457 problem in JSON, which contains neither the key nor the error's text.
//
// Limiters nest: each decides by itself, and the headers show the tighter one. The same limiter mounted twice charges each
// rule once. If a handler routes the request again, the limiter charges the rules of the new route.
//
// The route pattern, which keyfunc.Pattern uses, is c.Path in the notation of net/http, "/users/{id}". It is known in
// e.Pre too, before the router runs. There, mount the limiter behind middleware that changes the path or the method. If
// RemoveTrailingSlash or AddTrailingSlash comes after the limiter, the limiter looks up the path that they will
// produce: "/login/" counts as "/login", whichever handler serves it. A path such as "//login" that matches one route
// as it is and another one cleaned has no pattern: a rule that needs the pattern fails the request with status 400.
//
// The last parameter of an echo route matches slashes too: "/items/:id" also serves "/items/3/x" and "/items/3/../". To
// limit such a route with Rule.Routes, write "/items/{id...}" or "/items/" instead of "/items/{id}".
//
// The key funcs of package keyfunc do not use c.RealIP. If e.IPExtractor knows your proxies, use RealIP as a key func. Your
// own key funcs get the echo.Context from ContextOf.
package echolimit
