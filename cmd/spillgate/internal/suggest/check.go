package suggest

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

// check learns a burst at the rate r from the first half of a log and tries it on the second. If there are too few clients
// for the share, it should hit no more of them than there are beyond the gap of the whole log.
func (rep *Report) check(r *Rate, first, second *peaks) *Check {
	c := &Check{Learned: first.clients, Clients: second.clients, Promised: 100 - rep.Keep}
	if rep.TooFew > 0 {
		c.Promised = 100 * float64(r.gap.Clients) / float64(second.clients)
	}
	c.Burst, _ = rep.learn(first)
	c.Limit, c.Hit = limitText(r.limit, c.Burst), second.above(c.Burst)
	c.Percent = 100 * float64(c.Hit) / float64(c.Clients)
	return c
}
