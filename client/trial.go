package client

// maxWidth is how many requests may be in flight at the end of a trial.
const maxWidth = 256

// A trial probes a budget that was closed, or that is unknown: it sends one request at a time, until a response says
// what remains. If responses do not say what remains, up to width requests may be in flight. width grows by one each
// time that width requests have been answered.
type trial struct {
	trying bool
	width  int64  // 0: the first answer ends the trial
	gained int64  // requests answered since width has grown
	out    int64  // while trying: requests in flight that were sent after from
	from   uint64 // on the clock of the account
}

// begin restarts t. Requests in flight count only if an earlier trial has sent them.
func (t *trial) begin(clock uint64) {
	if t.from > 0 && t.out > 0 {
		t.width, t.gained = 0, 0
		return
	}
	*t = trial{trying: true, from: clock}
}

// enter counts a request that is being sent at sent.
func (t *trial) enter(sent uint64) {
	switch late := t.out >= max(t.width, 1); {
	case late && t.from == 0:
		*t = trial{} // nothing was denied yet: the other requests no longer wait for the trial
	case late:
		t.out, t.from = 1, sent-1
	default:
		t.out++
	}
}

// leave ends the count of a request that was sent at sent.
func (t *trial) leave(sent uint64) {
	if sent > t.from {
		t.out--
	}
}

// answered counts a request that was not denied.
func (t *trial) answered() {
	if t.gained++; t.gained >= t.width {
		t.gained = 0
		t.width++
	}
	if t.width == 1 || t.width > maxWidth {
		*t = trial{}
	}
}
