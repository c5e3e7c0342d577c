package algorithm

import "testing"

// A bucket keeps its tick where other algorithms have the last bits of their code.
func TestCodesLeaveRoomForTicks(t *testing.T) {
	for i := range Table[:InFlight] {
		if code := Table[i].Code; code != uint64(i)<<2 || (&Record{Kind: 1000<<4 | code | 2}).row() != &Table[i] {
			t.Errorf("algorithm %d has code %d, want %d", i, code, i<<2)
		}
	}
}

func TestNoLimitThatIsChargedHasTheKindOfCells(t *testing.T) {
	for a := range InFlight {
		if l, _ := Compile(Limit{Algorithm: a, Rate: 2, Capacity: 2, Micros: 1000, Width: 100}); l.Kind == CellsKind {
			t.Errorf("algorithm %d has the kind of cells", a)
		}
	}
}
