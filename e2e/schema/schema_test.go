package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/rulecases"
	"github.com/spillgate/spillgate/rulefile"
)

// program are the functions of a program that uses files.
var program = rulefile.Funcs{
	Keys: rulecases.Keys, Tiers: rulecases.Tiers, Costs: rulecases.Costs, CostsAfter: rulecases.CostsAfter, Matches: rulecases.Matches,
}

// compiledSchema returns Schema, compiled by a JSON Schema library.
func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(rulefile.Schema())))(t)
	c := jsonschema.NewCompiler()
	must.Do(t, c.AddResource("spillgate.json", doc))
	return must.Get(c.Compile("spillgate.json"))(t)
}

// valid reports whether the schema accepts a file.
func valid(t *testing.T, s *jsonschema.Schema, src string) (error, bool) {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(src))
	if err != nil {
		return nil, false
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return nil, false
	}
	return s.Validate(doc), true
}

var goodFiles = []string{
	rulecases.Whole,
	"rules:\n  - name: api\n    key: const(all)\n    limits: 5/h\n",
	"rules: [{key: ip, limits: 1/s}]",
	"rules: [{key: ip, limits: '5/10m;ban=1h, 20/d', cost_after: failures}, {name: b, key: ip, limits: [2 at once, 60/h]}]",
	"proxies: {hops: 2}\nrules: [{key: ip, limits: [1/s, 2/m]}]",
	"proxies: {unix: true, ipv6_bits: 56}\nrules: [{name: 5, key: ip, limits: 1/s, cost: 5, match: /, headers: {A: 1}}]",
	"funcs: plan\nrules: [{key: bearer, limits: 1/1h30m, tiers: {func: plan, a: 1/s}, dry_run: false, on_failure: local}]",
	"rules: [{key: 'join(ip, pattern)', limits: ' 1 / m ;burst=2, 3/hour'}]",
}

func TestSchemaAcceptsGoodFiles(t *testing.T) {
	s := compiledSchema(t)
	for _, src := range goodFiles {
		must.Get(rulefile.Parse([]byte(src), program))(t)
		err, ok := valid(t, s, src)
		expect.True(t, ok && err == nil, "%.200s\n%v", src, err)
	}
}

// values are values of a field, separated by |, with and without mistakes.
var values = []struct{ file, good, bad string }{
	{"rules: [{key: ip, limits: 1/s, lease: %s}]", "100ms|'1.5s'|1s500ms|+1s|0|'0'|'+0'|0s|0m.0s", "100|soon|-1s|'-0s'|'1 s'"},
	{"rules: [{key: ip, limits: 1/s, max_wait: %s}]", "5s|0|0s|1h", "5|-1s"},
	{"rules: [{key: ip, limits: 1/s, dry_run: %s}]", "true|false|'true'|\"false\"", "yes|1|'True'|''"},
	{"rules: [{key: ip, limits: 1/s, cost: %s}]", "1|'1'|'+01'|'1000000000'", "0|'0'|1.5|-1|'-1'|1000000001|'1000000001'"},
	{"rules: [{key: ip, limits: %s}]", "5 at once|' 5  at once '|[5 at once]|'5 / s, 5 at once'|\"5 at once\\n\"|\"5\\n/s,\\n5 at once\\t,1/h\"", "5at once|5 at  once|'5 at\tonce'|5 at once;ban=1h|5"},
	{"proxies: {hops: %s}\nrules: [{key: ip, limits: 1/s}]", "2|'2'|'+02'|32|'32'", "0|'0'|33|'33'|-1|1.5|'2.0'|'++2'|two"},
	{"proxies: {hops: 1, ipv6_bits: %s}\nrules: [{key: ip, limits: 1/s}]", "64|'64'|32|'32'|128|'128'", "31|'31'|129|'129'"},
	{"proxies: {hops: 1, unix: %s}\nrules: [{key: ip, limits: 1/s}]", "true|'true'|'false'", "yes|1"},
	{"skip: {routes: /a, preflight: %s}\nrules: [{key: ip, limits: 1/s}]", "true|'true'|'false'", "yes|1"},
}

// TestSchemaAndParserAgreeOnValues checks that a value is good or bad for both, quoted or not.
func TestSchemaAndParserAgreeOnValues(t *testing.T) {
	s := compiledSchema(t)
	for _, tt := range values {
		for good, list := range map[bool]string{true: tt.good, false: tt.bad} {
			for value := range strings.SplitSeq(list, "|") {
				src := fmt.Sprintf(tt.file, value)
				_, parsed := rulefile.Parse([]byte(src), program)
				err, ok := valid(t, s, src)
				expect.True(t, ok && (parsed == nil) == good && (err == nil) == good, "%s\nparser: %v\nschema: %v", src, parsed, err)
			}
		}
	}
}

// onlyParse matches mistakes that only the parser finds.
var onlyParse = regexp.MustCompile(`here twice|another rule named|unknown (key|match|tier|cost|cost_after) |supplies no function|not a key function|` +
	`key \w+|after a key|after the key|after the argument|a key is missing|not a duration|lease must|lease 1s|max wait |option "|both a |period must|rate of|^\d+:\d+: (parsing|route|pattern) |` +
	`not a network|all IPv4|name of a header other|not YAML|one document|Schema|no anchor|tags such`)

// TestSchemaRejectsBadFiles checks that the schema rejects the files that the parser rejects, except for mistakes that only
// the parser can find.
func TestSchemaRejectsBadFiles(t *testing.T) {
	s := compiledSchema(t)
	rejected := 0
	for _, tt := range rulecases.Bad() {
		known := slices.ContainsFunc(tt.Mistakes, func(m string) bool { return !onlyParse.MatchString(m) })
		err, ok := valid(t, s, tt.Text)
		if !ok {
			continue
		}
		if err != nil {
			rejected++
		}
		expect.True(t, !known || err != nil, "%s: the schema takes\n%s", tt.Why, tt.Text)
	}
	expect.AtLeast(t, rejected, 20, "the schema rejected bad files")
}

var unknownField = regexp.MustCompile(`unknown field "zzzz" of [a-z ]+; want (.*)`)

func TestSchemaHasTheFieldsOfTheParser(t *testing.T) {
	var doc struct {
		Properties map[string]struct{ Properties map[string]any }
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	must.Do(t, json.Unmarshal(rulefile.Schema(), &doc))
	fields := map[string][]string{
		"zzzz: x":                         slices.Sorted(maps.Keys(doc.Properties)),
		"proxies: {zzzz: x}":              slices.Sorted(maps.Keys(doc.Properties["proxies"].Properties)),
		"rules: [{limits: 1/s, zzzz: x}]": slices.Sorted(maps.Keys(doc.Defs["rule"].Properties)),
	}
	for src, want := range fields {
		_, err := rulefile.Parse([]byte(src), program)
		list := unknownField.FindStringSubmatch(fmt.Sprint(err))
		must.True(t, list != nil, "%s: got %v", src, err)
		got := strings.Split(list[1], ", ")
		slices.Sort(got)
		expect.True(t, slices.Equal(got, want), "%s: the parser knows %q, the schema %q", src, got, want)
	}
}
