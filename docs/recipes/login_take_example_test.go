package recipes

import (
	"log"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

var perName = core.MustParseLimits("20/h")

// signIn holds one failed login for the name while it checks the password, and releases it if the password is right.
func signIn(limiter *core.Limiter, w http.ResponseWriter, r *http.Request, name string, correct func() bool) {
	d, err := limiter.Take(r.Context(), core.Claim{Rule: "login-name", Key: "login:" + name, Limits: perName, Hold: true})
	if err != nil {
		http.Error(w, "Try again later.", http.StatusServiceUnavailable)
		return
	}
	if !d.Allowed {
		headers.GitHub(w.Header(), d)
		http.Error(w, "Too many failed logins.", http.StatusTooManyRequests)
		return
	}
	cost := 1 // also if correct panics
	defer func() {
		if err := limiter.Settle(r.Context(), d, "login-name", cost); err != nil {
			log.Print(err)
		}
	}()
	if !correct() {
		http.Error(w, "Wrong name or password.", http.StatusUnauthorized)
		return
	}
	cost = 0
	w.WriteHeader(http.StatusNoContent)
}
