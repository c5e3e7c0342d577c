// Package chilimit limits requests to a chi router.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	r := chi.NewRouter()
//	r.Use(chilimit.New(limiter))
//
// The documentation of package stdlib applies. The route pattern is known wherever the limiter is mounted: by Use, With,
// Group or Route, in a router that is mounted in another, or around a router.
//
// Mount it behind middleware that changes the path or the method. If CleanPath or StripSlashes comes after the limiter,
// the limiter looks up the path that they will produce: "/login/" counts as "/login", whichever handler serves it. A
// path such as "//login" that matches one route as it is and another one cleaned has no pattern: a rule that needs the
// pattern fails the request with status 400. The limiter cannot foresee other rewrites, such as URLFormat and
// PathRewrite. In front of the limiter, they are fine: Rule.Routes reads the path and the method that chi routes by.
package chilimit
