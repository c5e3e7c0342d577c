package core

import "time"

// The bounds of a lease.
const (
	minLease = time.Millisecond
	maxLease = 10 * time.Second
)

// LeaseStats describes the leases of a store in this process.
type LeaseStats struct {
	Keys      int    // keys that are leased now
	Decisions uint64 // requests that were decided from a lease
	Returned  uint64 // requests charged ahead that were returned unused
}

func validateLease(d time.Duration) error {
	if d == 0 || minLease <= d && d <= maxLease {
		return nil
	}
	return invalid("lease must be 0 or between %v and %v, got %v", minLease, maxLease, d)
}
