package replay

import (
	"testing"
	"time"
)

func TestTimelineDoublesItsColumns(t *testing.T) {
	var line Timeline
	for i := range 500 {
		at := noon.Add(time.Duration(i) * time.Second)
		line.add(at, at, i%5 == 0, i%2 == 0)
	}
	line.add(noon.Add(500*time.Second), noon, false, false) // late
	if line.Width != 8*time.Second || len(line.Asked) != 63 || !line.From.Equal(noon) {
		t.Fatalf("got %d columns of %v", len(line.Asked), line.Width)
	}
	asked, denied, would := 0, 0, 0
	for i := range line.Asked {
		asked, denied, would = asked+line.Asked[i], denied+line.Denied[i], would+line.Would[i]
		if i < 62 && line.Asked[i] != 8 {
			t.Errorf("column %d has %d requests, want 8", i, line.Asked[i])
		}
	}
	if asked != 501 || denied != 100 || would != 200 {
		t.Errorf("got %d requests, %d denied, %d denied by dry runs only; want 501, 100, 200", asked, denied, would)
	}
}
