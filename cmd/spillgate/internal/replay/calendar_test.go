package replay

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// TestCalendarWindowsTurnAtLocalMidnight replays requests around midnight in Berlin. UTC is an hour or two behind.
func TestCalendarWindowsTurnAtLocalMidnight(t *testing.T) {
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	day := noon.In(berlin)
	midnight := time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, berlin)
	at := func(d time.Duration) time.Duration { return midnight.Add(d).Sub(noon) }
	log := entries{
		sent(at(-3*time.Hour), "x", "/"), sent(at(-time.Second), "x", "/"), // the second is denied
		sent(at(0), "x", "/"), sent(at(23*time.Hour), "x", "/"), // and so is the fourth
		sent(at(24*time.Hour), "x", "/"),
	}
	if rep := run(t, "rules: [{key: ip, limits: 1/day;tz=Europe/Berlin}]", Options{}, log); rep.Denied != 2 || rep.Failed != 0 {
		t.Errorf("got %+v, want 2 of 5 denied", rep)
	}
}
