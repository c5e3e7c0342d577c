// Package telemetry counts the decisions of rate limiters: how many requests each rule allowed and denied, which keys it
// denied most, and how the store behaves.
//
//	t := telemetry.New(telemetry.Options{Log: slog.Default()})
//	limiter, err := core.New(rules, core.WithObserver(t.Observe))
//	...
//	t.Attach(limiter)
//	http.Handle("/limits/", http.StripPrefix("/limits", dashboard.New(t)))
//
// Snapshot returns all counts since the start, Top returns the keys denied most, Overridden returns the keys with limits
// of their own, Grants returns the last grants, and History returns the requests per second of the last hour. All of them
// cover this process only. Packages telemetry/otel and telemetry/prometheus export a Snapshot, and package dashboard shows
// it.
//
// # Bounds
//
// Counting needs no goroutine and does not allocate. Memory depends on the rules and not on the clients: each rule with
// traffic takes 58 KB of history and 260 bytes for each of Options.Top keys, and as many bytes again for keys with
// overrides. Clients cannot choose a metric label: rule names come from the configuration, and beyond 50 limits per rule,
// further limits from tiers and of rules that SetRules has replaced count as "other".
//
// # Keys
//
// Keys are personal data. So unless Options.Unmask is set, the log, Top and the page show addresses as their /24 or
// /48, and other keys as a hash that differs in each process. Routes, methods and constants name no client, so they stay
// as they are. Errors in the log are not masked: if key func ip finds no address with a port, as when a middleware has
// rewritten r.RemoteAddr, the error quotes its first 64 bytes, in this log and in the limiter's.
//
// # Log
//
// With Options.Log, the first denial of a rule and key is logged at level Info. After that, there is one line every 10
// seconds. Its attribute suppressed counts the denials that had no line of their own. Requests that were decided
// without the store, requests that were not decided, and failed settlements are logged the same way at level Warn, and
// mistakes in the application at level Error; the limiter does not log them again. There are at most 10 lines per
// second; further denials are added up per rule. No denial is lost: once Flush has written the rest, the number of
// lines plus their suppressed attributes equals the number of denials. Flush also writes the pending warnings, within
// the same 10 lines per second. If more rules have denials or warnings than there are lines left, one line per message
// adds up the rest, with the rule "other".
package telemetry
