// Package chilimit limits requests to a chi router.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	r := chi.NewRouter()
//	r.Use(chilimit.New(limiter))
//
// The documentation of package stdlib applies. The route pattern is known wherever the limiter is mounted: by Use, With,
// Group or Route, in a router that is mounted in another, or around a router. Mount it behind middleware that changes the
// path, such as StripSlashes and CleanPath.
package chilimit
