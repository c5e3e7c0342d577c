// Package echolimit limits requests to echo, version 4. Package echolimit in middleware/echov5 does it for version 5.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	e := echo.New()
//	e.Use(echolimit.New(limiter))
//
// A request that is admitted is passed on with the decision in the context of c.Request(): see core.FromContext. The
// c.Response() is passed on untouched. Before the next handler runs, the response has the headers that WithHeaders
// chooses. A rule with CostAfter has to know the status, so for its requests the limiter watches the writer below
// c.Response() and calls the HTTPErrorHandler for an error of the handler before it returns the error.
//
// A request that is denied ends in an *echo.HTTPError, found by errors.As, with status 429, or 413 if it costs more than
// is ever admitted at once. A request without a key ends in one with 400, one that cannot be decided in 503 if a rule
// fails closed, and 500 otherwise; these wrap the error. So an application's own HTTPErrorHandler and its logging see
// them as they see any other. The default HTTPErrorHandler renders them as an RFC 9457 problem in JSON, which contains
// neither the key nor the text of an error.
//
// Limiters nest: each decides by itself, and the headers show the tighter. The same limiter mounted twice charges each
// rule once. If a handler routes the request again, the limiter charges the rules of the new route.
//
// The route pattern, which keyfunc.Pattern uses, is that of c.Path with parameters as net/http writes them, "/users/{id}",
// also in middleware that runs before the router. There, mount the limiter behind middleware that changes the path or the
// method. If RemoveTrailingSlash or AddTrailingSlash comes after the limiter, the limiter looks up the path as they will
// leave it: "/login/" counts as "/login", whatever serves it. A path such as "//login" that matches two routes, one as it
// is and one cleaned, has no pattern: a rule that asks for it fails the request with status 500.
//
// The last parameter of a route of echo matches slashes too: "/items/:id" also serves "/items/3/x" and "/items/3/../". To limit
// such a route by Rule.Routes, write "/items/{id...}" or "/items/" instead of "/items/{id}".
//
// The key funcs of package keyfunc do not use c.RealIP. If e.IPExtractor knows your proxies, use RealIP as a key func. Key
// funcs of your own find the echo.Context with ContextOf.
package echolimit
