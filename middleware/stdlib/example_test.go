package stdlib_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func Example() {
	mux := http.NewServeMux()

	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	handler := stdlib.New(limiter)(mux)

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("X-RateLimit-Remaining"), "of", w.Header().Get("X-RateLimit-Limit"))
	// Output: 99 of 100
}

func ExampleWithHeaders() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	limit := stdlib.New(limiter, stdlib.WithHeaders(headers.Join(headers.GitHub, headers.IETF)))

	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("RateLimit"))
	// Output: "default";r=99;t=1
}

func ExampleWithDenyHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	limit := stdlib.New(limiter, stdlib.WithDenyHandler(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		http.Error(w, "Come back later.", http.StatusTooManyRequests)
	}))

	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 429 Come back later.
}

func ExampleWithErrorHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	limit := stdlib.New(limiter, stdlib.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		if errors.Is(err, core.ErrNoKey) {
			http.Error(w, "Send your key in X-Api-Key.", http.StatusUnauthorized)
			return
		}
		log.Print(err)
		http.Error(w, "Sorry.", http.StatusInternalServerError)
	}))

	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 401 Send your key in X-Api-Key.
}

// An error handler that logs and sends the default answer.
func ExampleWriteError() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	limit := stdlib.New(limiter, stdlib.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		fmt.Println(err)
		stdlib.WriteError(w, r, err)
	}))

	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code)
	// Output:
	// spillgate: rule "default": API key in header X-Api-Key: no key
	// 400
}

// A deny handler that logs, adds a header field and sends the default response.
func ExampleWriteDenial() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	limit := stdlib.New(limiter, stdlib.WithDenyHandler(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		tightest, _ := d.Tightest()
		fmt.Println("denied by", tightest.Limit)
		w.Header().Set("Link", `</plans>; rel="help"`)
		stdlib.WriteDenial(w, r, d)
	}))

	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "203.0.113.9:40000"
	limit(http.NotFoundHandler()).ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Link"))
	// Output:
	// denied by 0/1m
	// 429 </plans>; rel="help"
}
