package storetest

import "github.com/spillgate/spillgate/core"

var grantRows = []row{
	{"a grant adds requests to all limits, and a negative one takes them away", func(s *suite) {
		for _, limit := range append([]string{"5/year;calendar", "5/year;tz=Asia/Tokyo"}, allAlgorithms...) {
			c := claim(limit, limit, 3)
			s.take(c)
			s.settle(core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Grant: 2})
			s.expect(words("yes 4"), peek(claim(limit, limit, 1)))
			s.settle(core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Grant: -3})
			s.expect(words("yes 1"), peek(claim(limit, limit, 1)))
		}
	}},
}
