package oracle_test

import (
	"testing"

	"github.com/spillgate/spillgate/internal/oracle"
)

// stream is the random stream of this package's schedules.
const stream = 18

func newLease(length int64) oracle.Holder { return oracle.NewLease(length) }

func TestLeasesKeepTheirBounds(t *testing.T) { oracle.CheckLeases(t, stream, newLease) }

func FuzzLeases(f *testing.F) { oracle.FuzzLeases(f, stream, newLease) }
