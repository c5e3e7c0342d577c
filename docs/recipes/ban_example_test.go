package recipes

import (
	"log"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
)

// site refuses an address for an hour once it has used up 1,000 requests in ten minutes.
func site(ip core.KeyFunc) core.Rule {
	return core.Rule{Name: "site", Key: ip, Limits: core.MustParseLimits("1000/10m;ban=1h")}
}

// trap serves a path that no honest client asks for. It refuses the address for a day.
func trap(limiter *core.Limiter, ip core.KeyFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, err := ip(r)
		if err == nil {
			err = limiter.Ban(r.Context(), "site", key, 24*time.Hour)
		}
		if err != nil {
			log.Print(err)
		}
		http.NotFound(w, r)
	}
}
