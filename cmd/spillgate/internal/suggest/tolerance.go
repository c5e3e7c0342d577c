package suggest

import "math"

// doubt is the probability of breaking the promise for further clients that are like the clients of the log.
const doubt = 0.05

// mayHit returns how many of n clients a limit may hit, so that it leaves keep percent of all clients like them
// untouched. If n is too small even for no hits, needed is how many clients it takes.
//
// hits is the largest number k for which this holds: if more than the promised share of all clients would be hit, the
// probability of k or fewer hits among n clients is at most doubt.
func mayHit(n int, keep float64) (hits, needed int) {
	p := 1 - keep/100
	if p <= 0 {
		return 0, 0
	}
	if needed = int(math.Ceil(math.Log(doubt) / math.Log1p(-p))); n < needed {
		return 0, needed
	}
	log := float64(n) * math.Log1p(-p) // logarithm of the probability of k hits
	sum := math.Exp(log)
	for k := 0; ; k++ {
		log += math.Log(float64(n-k)/float64(k+1)) + math.Log(p) - math.Log1p(-p)
		if sum += math.Exp(log); sum > doubt || k == n {
			return k, 0
		}
	}
}
