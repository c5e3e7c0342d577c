package recipes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

func TestSellAPlan(t *testing.T) {
	customer := keyfunc.User(func(r *http.Request) (string, bool) { return r.Header.Get("Customer"), r.Header.Get("Customer") != "" })
	bought := Plan{PerMonth: 3, BillingDay: 15, Zone: "Europe/Berlin"}
	served := 0
	h, limiter, err := sell(customer, func(*http.Request) Plan { return bought }, new(core.MemoryStore), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	if err != nil {
		t.Fatal(err)
	}
	call := func(customer, path string, want int) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Customer", customer)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s of %s: got %d, want %d", path, customer, w.Code, want)
		}
		return w
	}
	for range 3 {
		call("ann", "/orders", 200)
	}
	call("ann", "/orders", 429)
	call("partner", "/orders", 200)
	month := core.PerMonth(bought.PerMonth).In(bought.Zone).From(bought.BillingDay)
	must.Do(t, goodwill(t.Context(), limiter, "user:ann", month, core.PerDay(2000).In(bought.Zone)))
	for range 10 {
		call("ann", "/orders", 200)
	}
	var usage struct {
		Resources map[string]struct{ Used, Limit, Remaining int }
	}
	for range 3 {
		must.Do(t, json.Unmarshal(call("ann", "/usage", 200).Body.Bytes(), &usage))
		if got := usage.Resources["plan"]; got.Remaining != 1990 || got.Limit != got.Used+got.Remaining {
			t.Errorf("usage: got %+v, want 1990 remaining", got)
		}
	}
	call("", "/usage", 401)
	if served != 14 {
		t.Errorf("%d requests were served, want 14", served)
	}
}
