package replay

import (
	"testing"
	"time"
)

func TestTimelineDoublesItsColumns(t *testing.T) {
	var line Timeline
	for i := range 500 {
		at := noon.Add(time.Duration(i) * time.Second)
		line.add(at, at, i%5 == 0)
	}
	line.add(noon.Add(500*time.Second), noon, false) // late
	if line.Width != 8*time.Second || len(line.Asked) != 63 || !line.From.Equal(noon) {
		t.Fatalf("got %d columns of %v", len(line.Asked), line.Width)
	}
	asked, refused := 0, 0
	for i := range line.Asked {
		asked, refused = asked+line.Asked[i], refused+line.Refused[i]
		if i < 62 && line.Asked[i] != 8 {
			t.Errorf("column %d has %d requests, want 8", i, line.Asked[i])
		}
	}
	if asked != 501 || refused != 100 {
		t.Errorf("got %d requests, %d refused; want 501, 100", asked, refused)
	}
}
