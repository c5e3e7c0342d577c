package replay

// Shares are the upper bounds of the columns of RuleReport.HitShares, in percent of the requests of a client.
var Shares = []int{1, 5, 10, 25, 50, 75, 100}

// hitShares counts clients by the share of their requests that was denied.
func (t *tally) hitShares() []int {
	columns := make([]int, len(Shares))
	for hash := range t.names {
		c := t.clients[hash]
		i := 0
		for uint64(c.denied)*100 > uint64(Shares[i])*uint64(c.asked) {
			i++
		}
		columns[i]++
	}
	return columns
}
