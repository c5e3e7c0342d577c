package xtime

import (
	"net"
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

// before limits each address to 2 requests per second, 4 at once.
func before(next http.Handler) http.Handler {
	var mu sync.Mutex
	clients := make(map[string]*rate.Limiter)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			return
		}
		mu.Lock()
		limiter, ok := clients[ip]
		if !ok {
			limiter = rate.NewLimiter(2, 4)
			clients[ip] = limiter
		}
		mu.Unlock()
		if !limiter.Allow() {
			http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
