package selling

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
)

// console is for support: GET shows what a customer has left, and POST with n grants n requests, or takes some away. limitsOf
// returns the limits that apply to a customer, or none if there is no such customer. Mount it behind the authentication of your staff.
func console(limiter *core.Limiter, limitsOf func(customer string) []core.Limit) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.FormValue("customer")
		limits := limitsOf(name)
		if len(limits) == 0 { // a limiter takes any key: it does not know your customers
			http.Error(w, "no such customer", http.StatusNotFound)
			return
		}
		if r.Method == http.MethodPost {
			n, err := strconv.Atoi(r.FormValue("n"))
			if err != nil || n == 0 || n > 100_000 {
				http.Error(w, "want a number up to 100000", http.StatusBadRequest)
				return
			}
			if err := limiter.Grant(r.Context(), "plan", "user:"+name, n, limits...); err != nil {
				http.Error(w, "perhaps nothing was granted; look before you try again", http.StatusServiceUnavailable)
				return
			}
		}
		d, err := limiter.UsageOf(r.Context(), "plan", "user:"+name, limits...)
		if err != nil || d.Degraded != nil { // without the store, this process knows only what it has counted itself
			http.Error(w, "not known now; try again", http.StatusServiceUnavailable)
			return
		}
		for _, one := range d.Results {
			_, _ = fmt.Fprintf(w, "%v: %d of %d left, %d granted, until %v\n", one.Limit, one.Remaining, one.Quota(), one.Granted,
				d.At.Add(one.ResetAfter).UTC().Format(time.RFC3339))
		}
	})
}
