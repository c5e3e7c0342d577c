package recipes

import (
	"log"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
)

// site denies an address for an hour once it has used up 1,000 requests in ten minutes.
func site(ip core.KeyFunc) core.Rule {
	return core.Rule{Name: "site", Key: ip, Limits: core.MustParseLimits("1000/10m;ban=1h")}
}

// trap serves a path that no honest client sends a POST to, such as the login page of a product that you do not run. It denies
// the address for a day. Somebody else's page can make its readers send requests, with an <img> or a form, so trap bans for
// neither a GET nor a request that a browser sends from another origin.
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
