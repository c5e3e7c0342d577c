package algorithm

import "testing"

// A bucket keeps its tick where other algorithms have the last bits of their code.
func TestKindsLeaveRoomForTicks(t *testing.T) {
	for a := range InFlight {
		l, _ := Compile(Limit{Algorithm: a, Rate: 2, Capacity: 2, Micros: 1000, Width: 100})
		if of := algorithmOf(l.Kind | tickBits); of != a || l.Kind&tickBits != 0 {
			t.Errorf("the kind %b of algorithm %d says %d", l.Kind, a, of)
		}
	}
}

func TestNoChargedLimitHasTheKindOfCells(t *testing.T) {
	for a := range InFlight {
		if l, _ := Compile(Limit{Algorithm: a, Rate: 2, Capacity: 2, Micros: 1000, Width: 100}); l.Kind == CellsKind {
			t.Errorf("algorithm %d has the kind of cells", a)
		}
	}
}
