package suggest

import "github.com/spillgate/spillgate/core"

// A Check says what a limit that was learned from the first half of a log does to the second half.
type Check struct {
	Limit    string  `json:"limit"`
	Burst    int     `json:"burst"`
	Learned  int     `json:"clients_learned_from"`
	Clients  int     `json:"clients"` // of the second half
	Hit      int     `json:"clients_hit"`
	Percent  float64 `json:"hit_percent"`
	Promised float64 `json:"promised_percent"` // at most
}

// tolerated is the factor by which a limit may hit more clients of the second half than promised.
const tolerated = 1.5

// Holds reports whether the second half is as promised.
func (c *Check) Holds() bool { return c.Percent <= tolerated*c.Promised+1e-9 }

// check learns a burst at a rate from the first half of a log and tries it on the second.
func check(keep float64, rate core.Limit, first, second *peaks) *Check {
	may, _ := mayHit(first.clients, keep)
	c := &Check{Burst: roundUp(first.least(may)), Learned: first.clients, Clients: second.clients, Promised: 100 - keep}
	c.Limit, c.Hit = limitText(rate, c.Burst), second.above(c.Burst)
	c.Percent = 100 * float64(c.Hit) / float64(c.Clients)
	return c
}
