package core

// SameName returns how many of the limiters further out than the one that made Results[i] have a rule of the same name,
// whether or not that rule applied. Writers of headers use it to give two limits two names.
func (d Decision) SameName(i int) int {
	if d.charge == nil || d.charge.limiter != nil || i < 0 || i >= len(d.Results) {
		return 0 // one limiter made all of d
	}
	n, end := 0, 0
	for _, c := range d.charges() {
		if end += len(c.results()); i < end {
			return n
		}
		if set := c.limiter.rules.Load(); set.byName[d.Results[i].Rule] != nil {
			n++
		}
	}
	return 0 // some results were made without a limiter
}
