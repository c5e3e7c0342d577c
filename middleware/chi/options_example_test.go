package chilimit_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
)

// answer sends a request to a router with this middleware.
func answer(limit func(http.Handler) http.Handler, from string) *httptest.ResponseRecorder {
	r := chi.NewRouter()
	r.Use(limit)
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = from
	r.ServeHTTP(w, req)
	return w
}

const client = "203.0.113.9:40000"

func ExampleWithHeaders() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	w := answer(chilimit.New(limiter, chilimit.WithHeaders(headers.IETF)), client)
	fmt.Println(w.Header().Get("RateLimit"))
	// Output: "default";r=99;t=1
}

func ExampleWithDenyHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	w := answer(chilimit.New(limiter, chilimit.WithDenyHandler(func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte("Come back later."))
	})), client)
	fmt.Println(w.Code, w.Body)
	// Output: 429 Come back later.
}

func ExampleWithErrorHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	w := answer(chilimit.New(limiter, chilimit.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		if errors.Is(err, core.ErrNoKey) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("Send your key in X-Api-Key."))
			return
		}
		log.Print(err)
		chilimit.WriteError(w, r, err)
	})), client)
	fmt.Println(w.Code, w.Body)
	// Output: 401 Send your key in X-Api-Key.
}

// An error handler that logs and sends the default answer.
func ExampleWriteError() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	w := answer(chilimit.New(limiter, chilimit.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		fmt.Println(err)
		chilimit.WriteError(w, r, err)
	})), client)
	fmt.Println(w.Code)
	// Output:
	// spillgate: rule "default": API key in header X-Api-Key: no key
	// 400
}

// A deny handler that logs, adds a header field and sends the default response.
func ExampleWriteDenial() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	w := answer(chilimit.New(limiter, chilimit.WithDenyHandler(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		tightest, _ := d.Tightest()
		fmt.Println("denied by", tightest.Limit)
		w.Header().Set("Link", `</plans>; rel="help"`)
		chilimit.WriteDenial(w, r, d)
	})), client)
	fmt.Println(w.Code, w.Header().Get("Link"))
	// Output:
	// denied by 0/1m
	// 429 </plans>; rel="help"
}
