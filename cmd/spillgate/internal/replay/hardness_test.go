package replay

import (
	"slices"
	"testing"
)

func TestClientsByTheirShareOfDeniedRequests(t *testing.T) {
	tally := tally{clients: make(map[uint64]clientTally), names: make(map[uint64]string)}
	for hash, c := range []clientTally{{1000, 1}, {100, 1}, {1000, 11}, {20, 1}, {4, 1}, {400, 101}, {2, 1}, {4, 3}, {100, 76}, {7, 7}, {5, 0}} {
		tally.clients[uint64(hash)] = c
		if c.denied > 0 {
			tally.names[uint64(hash)] = "key"
		}
	}
	if got, want := tally.hitShares(), []int{2, 2, 0, 1, 2, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v for the bounds %v", got, want, Shares)
	}
}
