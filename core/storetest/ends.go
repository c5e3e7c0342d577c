package storetest

import (
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
)

// untilEnded is after how long a hold has ended for certain.
const untilEnded = 66*time.Second + time.Millisecond

// endRows check holds that nobody settles.
var endRows = []row{
	{"a hold that nobody settles is charged when it ends", func(s *suite) {
		limits := append([]string{"5/d, 2 at once"}, allAlgorithms...)
		for _, limit := range limits {
			s.take(hold(claim(limit, limit, 3)))
		}
		s.wait(untilEnded)
		s.expect(words("yes 2", "yes 2"), peek(claim(limits[0], limits[0], 1)))
		for _, limit := range limits[1:] {
			s.expect(words("yes 2"), peek(claim(limit, limit, 1)))
			s.expect(words("yes 0"), claim(limit, limit, 2))
		}
	}},
	{"a hold that ends is charged at its end, even if it does not fit", func(s *suite) {
		s.take(hold(claim("drains", "6/m", 6)))
		s.take(hold(claim("full", "5/1000d;fixed-window", 2)))
		held := s.charge(hold(claim("full", "5/1000d;fixed-window", 3)))
		s.end(held[0], 4)
		s.wait(untilEnded)
		// The hold has ended 60 to 66 seconds after it was made, so that at most one request has drained.
		if left := s.take(peek(claim("drains", "6/m", 1)))[0].Remaining; left > 1+int(s.late()/(10*second)) {
			s.Errorf("%d remain, want at most 1", left)
		}
		s.expect(words("no 0"), peek(claim("full", "5/1000d;fixed-window", 1)))
	}},
	{"a hold that ends begins the ban of its limit", func(s *suite) {
		s.take(hold(claim("key", "2/h;ban=10h", 2)))
		s.wait(untilEnded)
		if r := s.take(claim("key", "2/h;ban=10h", 1))[0]; r.Allowed || r.RetryAfter > 10*time.Hour || r.RetryAfter < 10*time.Hour-7*second-s.late() {
			s.Errorf("%+v, want a ban of 10h", r)
		}
	}},
	{"a hold that ends is charged to the limits of its claim only, whatever the next request asks for", func(s *suite) {
		used := claim("key", "9/2d, 9/2000d;fixed-window, 9/2d;sliding-window, 9/2d;sliding-log", 1)
		s.take(hold(claim("key", together, 3)))
		s.take(used)
		s.wait(untilEnded)
		s.expect(words("yes 6"), claim("key", "7/3d", 1))
		s.expect(words("yes 2", "yes 2", "yes 2", "yes 2"), peek(claim("key", together, 1)))
		s.expect(words("yes 8", "yes 8", "yes 8", "yes 8"), peek(used))
	}},
	{"the charge of an ended hold drains at the rate of its claim", func(s *suite) {
		s.take(hold(claim("lax", "3600/h;burst=20", 20)))
		s.take(hold(claim("strict", "36/h;burst=20", 20)))
		s.wait(untilEnded + 20*second)
		s.expect(words("yes 19"), claim("lax", "36/h;burst=20", 1))
		s.expect(words("no 0"), claim("strict", "36/h;burst=20", 1))
		s.expect(words("no 0"), claim("strict", "3600/h;burst=20", 1))
	}},
	{"a settlement after the end of a hold adjusts what was charged", func(s *suite) {
		for _, limit := range allAlgorithms {
			key := func(i int) string { return limit + " " + strconv.Itoa(i) }
			finals, left := []int{0, 1, 4, 0}, []string{"yes 5", "yes 4", "yes 1", "yes 5"}
			var held []core.Settlement
			for i := range finals {
				held = append(held, s.charge(hold(claim(key(i), limit, 3)))...)
			}
			dry := s.charge(dryRun(hold(claim(limit, limit, 3))))[0]
			s.wait(untilEnded)
			s.expect(words("yes 2"), peek(claim(key(3), limit, 1)))
			for i, final := range finals {
				s.end(held[i], final)
				s.expect(words(left[i]), peek(claim(key(i), limit, 1)))
			}
			s.end(dry, 6)
			s.expect(words("yes 2"), peek(claim(limit, limit, 1)))
		}
	}},
	{"a renewal after the end of a hold reports that the hold is gone", func(s *suite) {
		held := s.charge(hold(claim("key", "5/d, 2 at once", 1)))
		s.wait(untilEnded)
		at := held[0].At
		held[0].Renew = true
		if s.settle(held...); !held[0].At.Equal(at) {
			s.Errorf("renewed at %v what was held at %v", held[0].At, at)
		}
		s.expect(words("yes 4", "yes 2"), peek(claim("key", "5/d, 2 at once", 1)))
	}},
	{"a hold that was renewed ends a minute later", func(s *suite) {
		held := s.charge(hold(claim("key", "5/d, 2 at once", 1)))
		s.wait(50 * time.Second)
		held[0].Renew = true
		s.settle(held...)
		s.wait(20 * time.Second)
		s.expect(words("yes 4", "yes 1"), peek(claim("key", "5/d, 2 at once", 1)))
		held[0].Renew = false
		s.end(held[0], 0)
		s.expect(words("yes 5", "yes 2"), peek(claim("key", "5/d, 2 at once", 1)))
	}},
	{"a reset forgets ended holds, and keeps others with the limits that they will be charged to", func(s *suite) {
		ended := s.charge(hold(claim("ended", together, 2)))
		s.wait(untilEnded)
		s.take(hold(claim("key", together, 2)))
		s.take(claim("key", together, 3))
		s.reset("rule", "key")
		s.reset("rule", "ended")
		s.expect(words("yes 3", "yes 3", "yes 3", "yes 3"), peek(claim("key", together, 1)))
		s.expect(words("yes 5", "yes 5", "yes 5", "yes 5"), peek(claim("ended", together, 1)))
		s.wait(ms)
		s.take(claim("ended", together, 4))
		s.end(ended[0], 0)
		s.expect(words("yes 1", "yes 1", "yes 1", "yes 1"), peek(claim("ended", together, 1)))
		s.wait(untilEnded)
		s.expect(words("yes 3", "yes 3", "yes 3", "yes 3"), peek(claim("key", together, 1)))
	}},
}
