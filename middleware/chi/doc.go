// Package chilimit limits requests to a chi router.
//
//	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//	r := chi.NewRouter()
//	r.Use(chilimit.New(limiter))
//
// It does what package stdlib does, whose documentation applies, and knows the route pattern wherever it is mounted: by
// Use, With, Group or Route, in a router that is mounted in another, or around a router.
package chilimit
