package redisx

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/internal/redistest"
)

// lowsRows are what the functions of lows.lua return. A list is written as its numbers; L is 1 5 3 9, and S its bytes.
var lowsRows = map[string]struct{ expression, want string }{
	"read none":                      {"readLows('', 1)", ""},
	"read none after a state":        {"readLows('12345678', 9)", ""},
	"read from the first byte":       {"readLows(S, 1)", "1 5 3 9"},
	"read from a later byte":         {"readLows('12345678' .. S, 9)", "1 5 3 9"},
	"read half a pair":               {"readLows(sub(S, 1, 24), 1)", "nil"},
	"read as many as there can be":   {"readLows(many(16), 1)", risingLows(16)},
	"read one more":                  {"readLows(many(17), 1)", "nil"},
	"read the largest level":         {"readLows(pack('<I8I8', 1, maxExact), 1)", "1 9007199254740992"},
	"read a larger level":            {"readLows(pack('<I8I8', 1, maxExact + 2), 1)", ""},
	"read levels that do not rise":   {"readLows(pack('<I8I8I8I8', 1, 5, 3, 5), 1)", ""},
	"read instants that do not rise": {"readLows(pack('<I8I8I8I8', 3, 5, 3, 9), 1)", ""},
	"read no instant":                {"readLows(pack('<I8I8', 0, 5), 1)", ""},

	"lows in the same ticks": {"lowsIn({tick = 1000, lows = L}, {unit = 1000})", "1 5 3 9"},
	"lows in other ticks":    {"lowsIn({tick = 1000, lows = L}, {unit = 1})", ""},

	"write none": {"writeLows({}) == ''", "true"},
	"write some": {"writeLows(L) == S", "true"},

	"bound none":                      {"boundLows({}, 7)", ""},
	"bound above all":                 {"boundLows(L, 10)", "1 5 3 9"},
	"bound the last":                  {"boundLows(L, 7)", "1 5 3 7"},
	"bound to the one before":         {"boundLows(L, 5)", "1 5"},
	"bound both":                      {"boundLows(L, 2)", "1 2"},
	"bound to an empty bucket":        {"boundLows(L, 0)", ""},
	"bound by a later one":            {"boundLows({1, 9, 3, 5, 4, 8}, 10)", "1 5 4 8"},
	"bound without changing the list": {"(boundLows(L, 2) and L)", "1 5 3 9"},

	"drop the one nearest to the one before": {"dropped({1, 5, 2, 9, 3, 10, 4, 50})", "1 5 2 9 4 50"},
	"drop the first":                         {"dropped({1, 5, 2, 15, 3, 30})", "2 15 3 30"},
	"drop the earlier of two":                {"dropped({1, 9, 2, 12, 3, 15})", "1 9 3 15"},

	"add to none":                     {"addLow({}, 4, 2)", "4 2"},
	"add to some":                     {"addLow(L, 4, 12)", "1 5 3 9 4 12"},
	"add at the instant of the last":  {"addLow(L, 3, 12)", "1 5 3 12"},
	"add when the clock stepped back": {"addLow(L, 2, 12)", "1 5 2 12"},
	"add before all":                  {"addLow(L, 1, 12)", "1 12"},
	"add the last that there can be":  {"#addLow(readLows(many(15), 1), 99, 99)", "32"},
	"add one more":                    {"#addLow(readLows(many(16), 1), 99, 99)", "32"},
	"add without changing the list":   {"(addLow(L, 1, 12) and L)", "1 5 3 9"},

	"place before all":     {"lowOf(L, 0)", "0"},
	"place at the first":   {"lowOf(L, 1)", "2"},
	"place after it":       {"lowOf(L, 2)", "2"},
	"place at the last":    {"lowOf(L, 3)", "4"},
	"place after all":      {"lowOf(L, 4)", "4"},
	"place if there is no": {"lowOf({}, 4)", "0"},

	"return of the last":               {"returnedLows(L, 4, 2)", "1 5 3 7"},
	"return of the first":              {"returnedLows(L, 1, 2)", "1 3 3 7"},
	"return of a charge before all":    {"returnedLows(L, 0, 2)", "1 3 3 7"},
	"return all of the first":          {"returnedLows(L, 1, 5)", "3 4"},
	"return without changing the list": {"(returnedLows(L, 1, 2) and L)", "1 5 3 9"},
}

// risingLows returns a list of n lows: 1 1 2 2 3 3 ...
func risingLows(n int) string {
	var numbers []string
	for i := range 2 * n {
		numbers = append(numbers, strconv.Itoa(i/2+1))
	}
	return strings.Join(numbers, " ")
}

// lowsSource defines lows.lua and what the rows use.
var lowsSource = read("number", "word", "lows") + `
	local function many(n)
		local words = {}
		for i = 1, 2 * n do words[i] = pack('<I8', ceilDiv(i, 2)) end
		return table.concat(words)
	end
	local function dropped(lows) dropLow(lows) return lows end
	local L = {1, 5, 3, 9}
	local S = pack('<I8I8I8I8', 1, 5, 3, 9)
	local function text(v)
		if type(v) ~= 'table' then return tostring(v) end
		local words = {}
		for i, n in ipairs(v) do words[i] = string.format('%d', n) end
		return table.concat(words, ' ')
	end
`

// TestLowsFunctions checks each function of lows.lua, with the library struct of Redis and without it.
func TestLowsFunctions(t *testing.T) {
	mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { mini.Close() })
	for _, client := range []*redis.Client{mini, redistest.Start(t).Client(t)} {
		for name, row := range lowsRows {
			got, err := client.Eval(context.Background(), lowsSource+"return text("+row.expression+")", nil).Text()
			if err != nil || got != row.want {
				t.Errorf("%s: %s is %q, %v, want %q", name, row.expression, got, err, row.want)
			}
		}
	}
}
