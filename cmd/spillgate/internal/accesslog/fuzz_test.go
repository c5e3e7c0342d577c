package accesslog

import (
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
)

func FuzzCombined(f *testing.F)    { fuzz(f, "combined") }
func FuzzCommon(f *testing.F)      { fuzz(f, "common") }
func FuzzTraefik(f *testing.F)     { fuzz(f, "traefik") }
func FuzzCaddy(f *testing.F)       { fuzz(f, "caddy") }
func FuzzTraefikJSON(f *testing.F) { fuzz(f, "traefik-json") }
func FuzzEnvoy(f *testing.F)       { fuzz(f, "envoy") }
func FuzzALB(f *testing.F)         { fuzz(f, "alb") }
func FuzzCloudFront(f *testing.F)  { fuzz(f, "cloudfront") }
func FuzzJSON(f *testing.F)        { fuzz(f, "json") }
func FuzzCSV(f *testing.F)         { fuzz(f, "csv") }

// fuzz has a parser read texts line by line, and checks that each entry is complete.
func fuzz(f *testing.F, format string) {
	for _, tt := range logs {
		if tt.format == format {
			f.Add(tt.lines)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := must.Get(NewParser(Options{Format: format}))(t)
		var e Entry
		for line := range strings.SplitSeq(text, "\n") {
			if err := p.Parse(line, &e); err != nil {
				continue
			}
			if e.Client == "" || !isMethod(e.Method) || e.Target == "" || e.Status < 0 || e.Status > 999 || e.Duration < -1 || e.At.Year() < 1990 || e.At.Year() > 2200 {
				t.Fatalf("%q: got %+v", line, e)
			}
		}
	})
}

func TestEachFormatIsAFuzzTarget(t *testing.T) {
	if len(Formats) != 10 {
		t.Errorf("there are %d formats and 10 fuzz targets", len(Formats))
	}
}
