package core

import (
	"maps"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/internal/nearest"
)

// didYouMean suggests the known word that is most similar to word, between before and after. It returns "" if none is
// similar.
func didYouMean(before, word string, known []string, after string) string {
	meant := nearest.Word(word, known)
	if meant == "" || meant == word {
		return ""
	}
	return "; did you mean " + before + meant + after + "?"
}

// perUnit are abbreviations that ParseLimits does not accept, for the suggestion in its error.
var perUnit = map[string]string{"rps": "s", "qps": "s", "rpm": "m", "rph": "h"}

// limitMistake returns the error for a limit that has no slash.
func limitMistake(word string) error {
	head, options, hasOptions := strings.Cut(word, ";")
	rate := strings.TrimRight(head[:len(head)-len(strings.TrimLeft(head, "0123456789"))], " ")
	rest := strings.TrimSpace(head[len(rate):])
	hint := ""
	switch unit, per := strings.CutPrefix(rest, "per "); {
	case rest == strings.TrimSpace(atOnce) && hasOptions:
		hint = "; a limit of requests in flight has no options, got " + options
	case per && rate != "":
		hint = "; did you mean " + rate + "/" + strings.TrimSpace(unit) + "?"
	case rate != "" && perUnit[rest] != "":
		hint = "; did you mean " + rate + "/" + perUnit[rest] + "?"
	case rate != "":
		hint = didYouMean(rate+" ", rest, []string{strings.TrimSpace(atOnce)}, "")
	}
	return invalid("limit %q: want RATE/PERIOD, such as 100/m, or RATE at once%s", word, hint)
}

// otherAlgorithmNames are the names of the algorithms in other libraries.
var otherAlgorithmNames = map[string]Algorithm{
	"gcra": TokenBucket, "leaky": TokenBucket, "leaky-bucket": TokenBucket, "window": FixedWindow, "log": SlidingLog, "counter": FixedWindow,
}

// optionMistake returns the error for an option that is unknown or, if twice is true, repeated.
func optionMistake(option string, twice bool) error {
	const want = "option %q: want an algorithm (%s), burst=N, buckets=N, ban=PERIOD, tz=ZONE, from=DAY or calendar, each once at most%s"
	names := strings.Join(algorithmNames[:InFlight], ", ")
	name, value, ok := strings.Cut(option, "=")
	name = strings.TrimSpace(name)
	after := ""
	if ok {
		after = "=" + value
	}
	hint := didYouMean("", name, append([]string{"burst", "buckets", "ban", "tz", "from", "calendar"}, algorithmNames[:InFlight]...), after)
	a, other := otherAlgorithmNames[strings.ToLower(name)]
	switch {
	case twice:
		hint = "; this is the second of its kind"
	case other:
		hint = "; did you mean " + a.String() + "?"
	case name == "tz":
		hint = "; tz wants the IANA name of a time zone, such as Europe/Berlin"
	case name == "burst" || name == "buckets" || name == "from":
		hint = "; " + name + " wants a whole number of at least 1"
	case name == "ban":
		hint = "; ban wants a period, such as 1h"
	case strings.Contains(option, "/"):
		hint = "; limits are separated by commas"
	}
	return invalid(want, option, names, hint)
}

// periodMistake returns the error for a period.
func periodMistake(period string) error {
	unit := strings.TrimLeft(period, "0123456789 ")
	hint := didYouMean("", unit, append(slices.Sorted(maps.Keys(unitNames)), "ms", "s", "m", "h", "d", "month", "year"), "")
	switch strings.ToLower(unit) {
	case "mo", "mon":
		hint = "; did you mean month?"
	case "y", "yr":
		hint = "; did you mean year?"
	case "month", "months":
		hint = "; months differ in length: want month, or days, such as 90d"
	case "year", "years":
		hint = "; years differ in length: want year, or days, such as 730d"
	}
	if strings.Contains(unit, "/") {
		hint = "; limits are separated by commas"
	}
	return invalid("period %q is not a duration, such as s, 15m, 500ms or day%s", period, hint)
}
