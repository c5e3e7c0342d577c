package suggest

// A Check describes the effect on the second half of a log of a limit learned from the first half.
type Check struct {
	Limit    string  `json:"limit"`
	Burst    int     `json:"burst"`
	Learned  int     `json:"clients_learned_from"`
	Clients  int     `json:"clients"` // of the second half
	Hit      int     `json:"clients_hit"`
	Percent  float64 `json:"hit_percent"`
	Promised float64 `json:"promised_percent"` // at most this share was promised to be hit
}

// tolerated is the factor by which a limit may hit more clients of the second half than promised.
const tolerated = 1.5

// Holds reports whether the limit keeps its promise in the second half.
func (c *Check) Holds() bool { return c.Percent <= tolerated*c.Promised+1e-9 }

// check learns a burst at the rate r from the first half of a log and tries it on the second half. If the log has too
// few clients for the share, the burst should hit no more clients than the gap of the whole log separates.
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
