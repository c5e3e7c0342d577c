// Package telemetry counts the decisions of rate limiters: how many requests each rule allowed and denied, which keys it
// denied most, and how the store behaves.
//
//	t := telemetry.New(telemetry.Options{Log: slog.Default()})
//	limiter, err := core.New(rules, core.WithObserver(t.Observe))
//	...
//	t.Attach(limiter)
//	http.Handle("/limits/", http.StripPrefix("/limits", dashboard.New(t)))
//
// Snapshot returns all counts since the start, Top the keys that were denied most, History the requests per second of
// the last hour. The packages telemetry/otel and telemetry/prometheus export a Snapshot, package dashboard shows it.
//
// # Bounds
//
// Counting needs no goroutine and does not allocate. The memory depends on the rules and not on the clients: for each
// rule with traffic 58 KB of history, and 230 bytes for each of Options.Top keys. No client chooses a metric label:
// rule names come from the configuration, and limits that tiers make are counted as "other" beyond 50 per rule.
//
// # Keys
//
// Keys are personal data, so they are masked in the log, in Top and on the page, unless Options.Unmask is set: addresses
// show as their /24 or /48, others as a hash that is different in each process.
//
// # Log
//
// With Options.Log, the first denial of a rule and key is logged at level Info, and then one line in 10 seconds whose
// attribute suppressed is the number of denials since the last one that have no line. A request that was decided without
// the store, one that was not decided, and a settlement that failed are logged in the same way at level Warn, mistakes of
// the application at level Error; the limiter then does not log them. No more than 10 lines are written in one second.
// Denials beyond that are summed up per rule. No denial is lost: the number of lines and their suppressed attributes add
// up to the number of denials, once Flush has written the rest.
package telemetry
