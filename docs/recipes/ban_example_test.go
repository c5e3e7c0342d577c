package recipes

import (
	"log"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
)

// site bans an address for an hour once it has used up 1,000 requests in ten minutes.
func site(ip core.KeyFunc) core.Rule {
	return core.Rule{Name: "site", Key: ip, Limits: core.MustParseLimits("1000/10m;ban=1h")}
}

// trap serves a path to which no honest client sends a POST, such as the login page of a product that you do not run. It bans the
// address for a day. Another website can make its visitors send requests here, with an <img> or a form, so trap ignores GET
// requests and requests that a browser sends from another origin.
func trap(limiter *core.Limiter, ip core.KeyFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && new(http.CrossOriginProtection).Check(r) == nil {
			key, err := ip(r)
			if err == nil {
				err = limiter.Ban(r.Context(), "site", key, 24*time.Hour)
			}
			if err != nil {
				log.Print(err)
			}
		}
		http.NotFound(w, r)
	}
}
