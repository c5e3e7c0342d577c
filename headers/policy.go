package headers

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// Violated returns the names of the policies that denied the request, as IETF writes them, in the order of d.Results.
// It returns nil if d denied nothing.
func Violated(d core.Decision) []string { return AppendViolated(nil, d) }

// AppendViolated appends the result of Violated to names.
func AppendViolated(names []string, d core.Decision) []string {
	for i := range d.Results {
		if t := &d.Results[i]; !t.DryRun && !t.Allowed {
			rule, suffix := policy(&d, i)
			names = append(names, rule+suffix)
		}
	}
	return names
}

// policy returns the policy name of result i in two parts: the name of its rule and a suffix. The suffix is the period
// if the rule has several enforced limits, and includes the algorithm, or the zone and day of a calendar, if some of these have the
// same period. It is "~2" if an outer limiter has a rule of the same name.
//
// So a limit has the same name in all responses, and no other limit has that name. A rule whose own name ends like a
// suffix always gets a suffix.
func policy(d *core.Decision, i int) (rule, suffix string) {
	t := &d.Results[i]
	nth := d.OuterRulesOfSameName(i)
	several, samePeriod := endsInSuffix(t.Rule), false
	for j := range d.Results {
		if other := &d.Results[j]; j != i && !other.DryRun && other.Rule == t.Rule && d.OuterRulesOfSameName(j) == nth {
			several = true
			samePeriod = samePeriod || other.Limit.Period == t.Limit.Period && other.Limit.Calendar.Unit == t.Limit.Calendar.Unit
		}
	}
	switch {
	case samePeriod && t.Limit.Calendar.Unit != 0:
		suffix = calendarSuffix(t.Limit.Calendar)
	case samePeriod:
		suffix = periodSuffix(t.Limit) + "-" + t.Limit.Algorithm.String()
	case several:
		suffix = periodSuffix(t.Limit)
	}
	if nth > 0 {
		suffix += "~" + strconv.Itoa(nth+1)
	}
	return t.Rule, suffix
}

// algorithmSuffixes are the suffixes that follow a period.
var algorithmSuffixes = func() (suffixes []string) {
	for a := range core.InFlight {
		suffixes = append(suffixes, "-"+a.String())
	}
	return suffixes
}()

// calendarSuffix returns the suffix of a calendar limit if the rule has others of the same unit, such as
// "-month-Europe/Berlin-15".
func calendarSuffix(c core.Calendar) string {
	return "-" + c.Unit.String() + "-" + cmp.Or(c.Zone, "UTC") + "-" + strconv.Itoa(max(c.From, 1))
}

// atOnce is the suffix of a limit of requests in flight, which has no period.
const atOnce = "-at-once"

// endsInSuffix reports whether the name of a rule ends like the suffixes of policy: "-1m", "-1m-sliding-log",
// "-at-once" or "~2".
func endsInSuffix(rule string) bool {
	if strings.IndexByte(rule, '-') < 0 && strings.IndexByte(rule, '~') < 0 {
		return false
	}
	if i := strings.LastIndexByte(rule, '~'); i >= 0 && digits(rule[i+1:]) > 0 && digits(rule[i+1:]) == len(rule)-i-1 {
		return true
	}
	if strings.HasSuffix(rule, atOnce) {
		return true
	}
	for u := core.CalendarDay; u <= core.CalendarYear; u++ {
		if unit := "-" + u.String(); strings.HasSuffix(rule, unit) || strings.Contains(rule, unit+"-") {
			return true
		}
	}
	for _, suffix := range algorithmSuffixes {
		if cut, ok := strings.CutSuffix(rule, suffix); ok {
			rule = cut
			break
		}
	}
	period := rule[strings.LastIndexByte(rule, '-')+1:]
	n := digits(period)
	if n == 0 || len(period) == len(rule) {
		return false
	}
	switch period[n:] {
	case "us", "ms", "s", "m", "h", "d":
		return true
	}
	return false
}

// digits returns the number of digits at the start of s.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
