package suggest

// columns is the largest number of columns in a histogram.
const columns = 4096

// A histogram counts requests by time in columns of equal width. The width doubles when there are too many columns.
type histogram struct {
	from, width int64 // microseconds
	counts      []int
}

func (d *histogram) add(at int64) {
	if d.width == 0 {
		d.width = 1000
	}
	for (at-d.from)/d.width >= columns {
		for i := range d.counts {
			n := d.counts[i]
			d.counts[i] = 0
			d.counts[i/2] += n
		}
		d.counts = d.counts[:(len(d.counts)+1)/2]
		d.width *= 2
	}
	i := int((at - d.from) / d.width)
	for len(d.counts) <= i {
		d.counts = append(d.counts, 0)
	}
	d.counts[i]++
}

// half returns the instant between two columns that best halves n requests.
func (d *histogram) half(n int) int64 {
	before, best, at := 0, n, d.from
	for i, count := range d.counts {
		if off := max(n-2*before, 2*before-n); off < best {
			best, at = off, d.from+int64(i)*d.width
		}
		before += count
	}
	return at
}

// cut returns the instant at which the second half of the log begins.
func (l *learner) cut() int64 { return l.histogram.half(l.report.Requests) }
