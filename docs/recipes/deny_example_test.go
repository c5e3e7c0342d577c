package recipes

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// denials are the texts of a denial, by language.
var denials = map[string]string{
	"en": "Too many requests. Please wait %d seconds.",
	"de": "Zu viele Anfragen. Bitte warten Sie %d Sekunden.",
	"fr": "Trop de requêtes. Veuillez patienter %d secondes.",
}

// language returns the first language of Accept-Language that has a text.
func language(r *http.Request) string {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		tag, _, _ = strings.Cut(strings.ToLower(tag), "-")
		if denials[tag] != "" {
			return tag
		}
	}
	return "en"
}

// translated responds to denials in the JSON of this application. Denials that no retry can cure get the default response.
func translated(limiter *core.Limiter) func(http.Handler) http.Handler {
	return stdlib.New(limiter, stdlib.WithDenyHandler(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		wait := d.RetryAfter()
		if wait == core.Never {
			stdlib.WriteDenial(w, r, d)
			return
		}
		seconds := int(math.Ceil(wait.Seconds()))
		lang := language(r)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Language", lang)
		w.WriteHeader(http.StatusTooManyRequests)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"error":       "rate_limited",
			"message":     fmt.Sprintf(denials[lang], seconds),
			"retry_after": seconds,
		})
	}))
}
