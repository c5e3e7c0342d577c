package testing

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func TestRedisIsDown(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()
	server.Close()

	api := core.Rule{Name: "api", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerHour(1)}} // enforced from memory
	login := core.Rule{
		Name: "login", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerHour(5)},
		Routes: []string{"POST /login"}, OnFailure: core.FailClosed,
	}
	limiter := core.Must(core.New([]core.Rule{api, login}, core.WithStore(redisstore.New(client))))
	app := stdlib.New(limiter)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, row := range []struct {
		method, path string
		want         int
	}{{"POST", "/login", 503}, {"GET", "/", 200}, {"GET", "/", 429}} {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest(row.method, row.path, nil))
		if w.Code != row.want {
			t.Errorf("%s %s: got %d, want %d", row.method, row.path, w.Code, row.want)
		}
	}
}
