package recipes

import (
	"context"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

type userKey struct{}

// authenticate stores the verified user, if any, in the request's context.
func authenticate(verify func(*http.Request) (user string, ok bool), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, ok := verify(r); ok {
			r = r.WithContext(context.WithValue(r.Context(), userKey{}, user))
		}
		next.ServeHTTP(w, r)
	})
}

// byUser limits each user, and each address where no user is signed in. The limiter runs after authenticate.
func byUser(verify func(*http.Request) (string, bool), mux http.Handler) http.Handler {
	user := keyfunc.User(func(r *http.Request) (string, bool) {
		id, ok := r.Context().Value(userKey{}).(string)
		return id, ok
	})
	key := keyfunc.First(user, keyfunc.RemoteIP)
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(key)}))
	return authenticate(verify, stdlib.New(limiter)(mux))
}
