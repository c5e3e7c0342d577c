// Package suggest finds the limits that would leave most clients of an access log untouched.
//
//	report, err := suggest.Run(ctx, file, sources, suggest.Options{Keep: 99.9, Within: time.Minute})
//	fmt.Println(report.Chosen.Limit) // 5/s;burst=20
//
// A token bucket never denies a client exactly if a queue that the client's requests fill, and that drains at the rate,
// never holds more than the burst. So one pass over the requests of a client, with a queue for each rate, finds the
// burst that the client needs at each rate. From the numbers of clients by burst follows how many clients any limit
// hits. The queues are the buckets of internal/algorithm, so a replay with a limit hits the same clients.
//
// Counts are exact. Sketches such as t-digest, DDSketch and HdrHistogram save memory by rounding, which is unnecessary
// here: there are few different bursts. The promise about future clients follows from the binomial distribution alone,
// as a tolerance limit (Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", 1941), whatever the
// traffic is like.
//
// If the log has too few clients for that, it says nothing about the share: at 99.9%, any of its clients, even a
// scanner, may be one to keep. The limit is then in a gap of the distribution of bursts instead: it hits the few
// clients, at most 5%, that need more than twice the burst of any other client. Without such a gap, it hits nobody.
//
// Reading order: suggest.go (the report), learn.go (requests to clients), drain.go (clients to the bursts they need), peaks.go
// (counts of them, gaps), tolerance.go, choose.go (a limit), check.go (the second half of the log).
package suggest
