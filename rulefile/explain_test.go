package rulefile_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/spillgate/spillgate/rulefile"
)

func TestExplain(t *testing.T) {
	f, err := rulefile.Check("f.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	login := rulefile.Explanation{Rule: "login", Key: "ip", Limits: "5/10m, 20/1d", OnFailure: "closed"}
	api := rulefile.Explanation{
		Rule: "api", Key: "user", Limits: "10/1s, 120/1m;burst=200", Tiers: "plan: pro 100/1s, free 1/1s", Cost: "exportCost", DryRun: true, OnFailure: "open",
	}
	rest := rulefile.Explanation{
		Rule: "default", Applies: "yes", Key: "first(apikey(X-Api-Key), join( ip , cookie(sid) ), user)", Limits: "1/1s", Cost: "3", CostAfter: "failures", OnFailure: "local",
		Why: []string{"it has no patterns, so it applies to every path"},
	}
	tokens := rulefile.Explanation{Rule: "tokens", Applies: "yes", Key: "ip", Limits: "1/1s", CostAfter: "tokens", OnFailure: "local", Why: rest.Why}
	tenant := rulefile.Explanation{Rule: "tenant", Applies: "yes", Key: "ip", Limits: "50000/1s", OnFailure: "local", Lease: "100ms", Why: rest.Why}
	webhooks := rulefile.Explanation{Rule: "webhooks", Applies: "yes", Key: "ip", Limits: "10/1s", OnFailure: "local", MaxWait: "5s", Why: rest.Why}
	with := func(e rulefile.Explanation, applies string, why ...string) rulefile.Explanation {
		e.Applies, e.Why = applies, why
		return e
	}
	tests := []struct {
		method, path string
		header       http.Header
		want         []rulefile.Explanation
	}{
		{"POST", "//login", http.Header{"X-Plan": {"pro"}, "X-Kind": {"b"}}, []rulefile.Explanation{
			with(login, "yes", "matches POST /login", "X-Plan is pro", "X-Kind is a or b"),
			with(api, "no", "no pattern matches: /api/", "the program decides by internal"), rest, tokens, tenant, webhooks,
		}},
		{"POST", "/v1/a/login", http.Header{"X-Plan": {"free"}}, []rulefile.Explanation{
			with(login, "no", "matches POST /v1/{tenant}/login", "X-Plan is free, want pro", "X-Kind is not there, want a or b"),
			with(api, "no", "no pattern matches: /api/", "the program decides by internal"), rest, tokens, tenant, webhooks,
		}},
		{"GET", "/api/x", nil, []rulefile.Explanation{
			with(login, "no", "no pattern matches: POST /login, POST /v1/{tenant}/login", "X-Plan is not there, want pro", "X-Kind is not there, want a or b"),
			with(api, "depends", "matches /api/", "the program decides by internal"), rest, tokens, tenant, webhooks,
		}},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.Header = tt.header
		got, err := f.Explain(r)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s %s: got %v\n%+v\nwant\n%+v", tt.method, tt.path, err, got, tt.want)
		}
	}
}
