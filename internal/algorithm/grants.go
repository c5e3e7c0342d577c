package algorithm

import "slices"

// grants are the requests granted on top of the rate of a window or a log, by the instants at which they end, ascending. A
// negative count was taken away.
type grants []grant

type grant struct{ ends, n int64 }

const (
	// maxGrant is the most that can be granted, or taken away, until one instant.
	maxGrant = 1<<30 - 1

	// maxGrants is how many grants a state keeps apart.
	maxGrants = 60
)

// addGrant returns what a state is granted after n more.
func addGrant(granted, n int64) int64 { return max(-maxGrant, min(granted+n, maxGrant)) }

// at returns what is granted at an instant.
func (g grants) at(now int64) (sum int64) {
	for _, one := range g {
		if one.ends > now {
			sum += one.n
		}
	}
	return sum
}

// add returns g with n more requests until an instant.
func (g grants) add(n, ends int64) grants {
	i, found := slices.BinarySearchFunc(g, ends, func(one grant, ends int64) int { return int(max(-1, min(one.ends-ends, 1))) })
	if !found {
		g = append(g, grant{})
		copy(g[i+1:], g[i:])
		g[i] = grant{ends: ends}
	}
	if g[i].n = addGrant(g[i].n, n); g[i].n == 0 {
		return slices.Delete(g, i, i+1)
	}
	if len(g) > maxGrants {
		return g.merge()
	}
	return g
}

// merge makes one grant of the two whose ends are closest, so that at no instant more is granted than before.
func (g grants) merge() grants {
	i := 0
	for j := range len(g) - 1 {
		if g[j+1].ends-g[j].ends < g[i+1].ends-g[i].ends {
			i = j
		}
	}
	first, last := g[i], g[i+1]
	sum := addGrant(first.n, last.n)
	if g[i+1].n = min(sum, last.n); last.n >= 0 {
		g[i+1] = grant{ends: first.ends, n: sum}
	}
	if g[i+1].n == 0 {
		return slices.Delete(g, i, i+2)
	}
	return slices.Delete(g, i, i+1)
}

// advance returns g without the grants that have ended at now. A grant that ends after latest shows that the clock has
// gone back: it ends at latest instead.
func (g grants) advance(now, latest int64) grants {
	g = slices.DeleteFunc(g, func(one grant) bool { return one.ends <= now })
	later := int64(0)
	for n := len(g); n > 0 && g[n-1].ends > latest; n = len(g) {
		later, g = later+g[n-1].n, g[:n-1]
	}
	if later != 0 {
		return g.add(later, latest)
	}
	return g
}

// UsageOf returns the usage of a window or a log, without waits, and reports whether anything is missing.
func UsageOf(l *Limit, used, granted int64) (u Usage, missing bool) {
	if l.Rate == 0 { // nothing is admitted, whatever is granted
		return u, false
	}
	free := l.Rate + granted - used
	u = Usage{Remaining: max(0, free), Granted: granted, Over: max(0, -free)}
	return u, used > 0 || free <= 0
}
