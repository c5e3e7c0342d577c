package replay

import "time"

// maxColumns is the largest number of columns in a timeline.
const maxColumns = 120

// A Timeline counts requests in columns of equal width.
type Timeline struct {
	From   time.Time     `json:"from"`
	Width  time.Duration `json:"width_ns"`
	Asked  []int         `json:"asked"`
	Denied []int         `json:"denied"`
	Would  []int         `json:"would_deny"` // admitted, but a dry run would deny them
}

// add counts a request at an instant, or at now if that is later. Neither is before the start of the timeline.
func (t *Timeline) add(now, at time.Time, denied, would bool) {
	if now.After(at) {
		at = now
	}
	if t.Width == 0 {
		t.Width, t.From = time.Second, at.Truncate(time.Second)
	}
	i := int(at.Sub(t.From) / t.Width)
	for ; i >= maxColumns; i = int(at.Sub(t.From) / t.Width) {
		t.Width *= 2
		t.Asked, t.Denied, t.Would = halve(t.Asked), halve(t.Denied), halve(t.Would)
	}
	for len(t.Asked) <= i {
		t.Asked, t.Denied, t.Would = append(t.Asked, 0), append(t.Denied, 0), append(t.Would, 0)
	}
	t.Asked[i]++
	switch {
	case denied:
		t.Denied[i]++
	case would:
		t.Would[i]++
	}
}

// halve adds up pairs of columns.
func halve(columns []int) []int {
	for i := range columns {
		if i%2 == 0 {
			columns[i/2] = columns[i]
		} else {
			columns[i/2] += columns[i]
		}
	}
	return columns[:(len(columns)+1)/2]
}
