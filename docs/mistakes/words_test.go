package mistakes

import (
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

func words(text string) func() error {
	return func() error {
		_, err := core.ParseLimits(text)
		return err
	}
}

var algorithms = strings.Join(algorithm.Names(algorithm.InFlight), ", ")

var ofWords = []mistake{
	{"no limit", words(""), `limit ""`, "want RATE/PERIOD", "100/m"},
	{"a rate alone", words("10/s, 100"), `limit "100"`, "want RATE/PERIOD", "100/m"},
	{"per", words("100 per minute"), `limit "100 per minute"`, "want RATE/PERIOD", "did you mean 100/minute?"},
	{"rps", words("100rps"), `limit "100rps"`, "want RATE/PERIOD", "did you mean 100/s?"},
	{"at once with a typing error", words("20 at onec"), `limit "20 at onec"`, "RATE at once", "did you mean 20 at once?"},
	{"at once with an option", words("20 at once;burst=3"), `limit "20 at once;burst=3"`, "burst=3", "has no options"},
	{"a rate in words", words("ten/m"), `limit "ten/m"`, `rate "ten"`, "whole number"},
	{"half a request", words("1.5/s"), `limit "1.5/s"`, `rate "1.5"`, "whole number"},
	{"a period with a typing error", words("100/minut"), `limit "100/minut"`, `period "minut"`, "did you mean minute?"},
	{"a period in upper case", words("100/M"), `limit "100/M"`, `period "M"`, "did you mean m?"},
	{"two months", words("100/2 months"), `limit "100/2 months"`, "months differ in length", "want month, or days, such as 90d"},
	{"a year", words("100/y"), `limit "100/y"`, `period "y"`, "did you mean year?"},
	{"a zone of an hour", words("100/h;tz=Europe/Berlin"), `limit "100/h;tz=Europe/Berlin"`, "got 1h", "only a day, a week, a month or a year"},
	{"no comma", words("10/s 20/m"), `limit "10/s 20/m"`, `period "s 20/m"`, "limits are separated by commas"},
	{"a semicolon between limits", words("10/s; 20/m"), `limit "10/s; 20/m"`, `option "20/m"`, "limits are separated by commas"},
	{"another name of an algorithm", words("10/s;leaky-bucket"), `option "leaky-bucket"`, algorithms, "did you mean token-bucket?"},
	{"an algorithm with an underscore", words("10/s;sliding_log"), `option "sliding_log"`, algorithms, "did you mean sliding-log?"},
	{"an algorithm with a typing error", words("10/s;fixed-windwo"), `option "fixed-windwo"`, algorithms, "did you mean fixed-window?"},
	{"an unknown option", words("10/s;colour=red"), `option "colour=red"`, algorithms, "burst=N, buckets=N, ban=PERIOD, tz=ZONE, from=DAY or calendar"},
	{"an option with a typing error", words("10/s;brust=5"), `limit "10/s;brust=5"`, `option "brust=5"`, "did you mean burst=5?"},
	{"a burst in words", words("10/s;burst=five"), `limit "10/s;burst=five"`, `option "burst=five"`, "burst wants a whole number of at least 1"},
	{"a ban without a unit", words("10/s;ban=5"), `limit "10/s;ban=5"`, `option "ban=5"`, "ban wants a period, such as 1h"},
	{"a burst twice", words("10/s;burst=5;burst=6"), `option "burst=6"`, "the second of its kind", "each once at most"},
}
