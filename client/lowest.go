package client

// lowest finds what remained after the last request that the server has decided. Responses may arrive in another order
// than the server's decisions. So any response may be the last, unless it was received before another answered request
// was sent. The lowest of the candidates is safe: in a window, Remaining only falls; in a token bucket, waiting only
// adds to it.
type lowest struct {
	entries []remaining // a sliding window minimum: ascending in left and in received
}

type remaining struct {
	left     int64
	received uint64
}

// add records a response to a request that was sent and received at these instants of the clock of the account.
func (l *lowest) add(left int64, sent, received uint64) {
	e := l.entries
	old := 0
	for old < len(e) && e[old].received < sent {
		old++
	}
	e = e[:copy(e, e[old:])]
	for len(e) > 0 && e[len(e)-1].left >= left {
		e = e[:len(e)-1]
	}
	l.entries = append(e, remaining{left, received})
}

func (l *lowest) least() int64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[0].left
}
