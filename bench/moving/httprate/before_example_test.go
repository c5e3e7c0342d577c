package httprate

import (
	"net"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

// before limits each address to 100 requests per minute.
func before(next http.Handler) http.Handler {
	return httprate.LimitBy(100, time.Minute, func(r *http.Request) (string, error) {
		ip, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(ip), err
	})(next)
}
