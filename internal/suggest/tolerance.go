package suggest

import "math"

// doubt is how likely it is that the share of clients to come is missed, if they are like those of the log.
const doubt = 0.05

// mayHit returns how many of n clients a limit may hit, so that it leaves a share of all clients like them untouched, in percent.
// If n is too few to say so even if it hits none, it returns how many it takes as well.
//
// If a larger share than promised were hit, so few hits in n would be as unlikely as doubt.
func mayHit(n int, keep float64) (hits, needed int) {
	p := 1 - keep/100
	if p <= 0 {
		return 0, 0
	}
	if needed = int(math.Ceil(math.Log(doubt) / math.Log1p(-p))); n < needed {
		return 0, needed
	}
	log := float64(n) * math.Log1p(-p) // of the probability of k hits
	sum := math.Exp(log)
	for k := 0; ; k++ {
		log += math.Log(float64(n-k)/float64(k+1)) + math.Log(p) - math.Log1p(-p)
		if sum += math.Exp(log); sum > doubt || k == n {
			return k, 0
		}
	}
}
