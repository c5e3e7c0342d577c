package replay

import (
	"testing"
	"time"
)

// wholeSeconds returns entries whose times are whole seconds.
func wholeSeconds(log entries) entries {
	for i := range log {
		log[i].Seconds = true
	}
	return log
}

func TestRangeOfDenials(t *testing.T) {
	var log, long entries
	for i := range 10 {
		log = append(log, sent(time.Duration(i/5)*time.Second, "x", "/"))
	}
	for range 4 { // all start at once and take a second
		e := sent(0, "x", "/")
		e.Started, e.Duration = true, time.Second
		long = append(long, e)
	}
	all := func(string) bool { return true }
	tests := []struct {
		why, rules    string
		log           entries
		o             Options
		denied, least int
	}{
		{"a fast limit", "{key: ip, limits: 5/s;burst=1}", log, Options{}, 8, 0},
		{"the denials of a slow limit stand", "{key: ip, limits: 1/h}", log, Options{}, 9, 9},
		{"a slow dry run denies nothing", "{key: ip, limits: 1/h, dry_run: true}, {name: b, key: ip, limits: 5/s;burst=1}", log, Options{}, 8, 0},
		{"a fast limit is not charged for requests that a slow limit denies", "{key: ip, limits: 8/h}, {name: b, key: ip, limits: 5/s;burst=1}", log, Options{}, 8, 0},
		{"requests that are spread are held for the same time", "{key: ip, limits: 1 at once}", long, Options{AtStart: true, Knows: all}, 3, 3},
	}
	for _, tt := range tests {
		rep := run(t, "rules: ["+tt.rules+"]", tt.o, wholeSeconds(append(entries(nil), tt.log...)))
		if rep.Denied != tt.denied || rep.AtLeast == nil || *rep.AtLeast != tt.least || rep.Failed > 0 {
			t.Errorf("%s: got %d denied, at least %v; want %d, %d", tt.why, rep.Denied, *rep.AtLeast, tt.denied, tt.least)
		}
	}
}
