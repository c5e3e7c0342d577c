// Package suggest finds the limits that would leave most clients of an access log untouched.
//
//	report, err := suggest.Run(ctx, file, sources, suggest.Options{Keep: 99.9, Within: time.Minute})
//	fmt.Println(report.Chosen.Limit) // 5/s;burst=20
//
// A client is untouched by a token bucket exactly if a queue that its requests fill, and that drains at the rate, never holds more
// than the burst: until its first denial, all its requests are admitted. So one pass over the requests of a client, with a queue
// for each rate, says which burst it needs at each rate, and counting clients by that says how many any limit hits. The queues are
// the buckets of internal/algorithm, so a replay with a limit hits the same clients.
//
// Counts are exact. Sketches such as t-digest and DDSketch, and HdrHistogram, were looked at: they save memory by rounding, but
// clients by their burst are few numbers. What is promised of clients to come follows from the binomial distribution alone, as a
// tolerance limit (Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", 1941), whatever the traffic is like.
//
// A log of too few clients for that says nothing about the share: at 99.9%, any client of it may be one of those to keep, even a
// scanner. Then the limit lies in a gap of the distribution of bursts instead: it hits the few clients, at most 5%, that need more than
// twice what any other client needs. Without such a gap it hits nobody.
//
// Reading order: suggest.go (the report), learn.go (requests to clients), drain.go (clients to the bursts they need), peaks.go
// (counts of them, gaps), tolerance.go, choose.go (a limit), check.go (the second half of the log).
package suggest
