package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	echov4 "github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

const prefix = "/ops/limits"

// routers are the ways to mount the page below prefix.
var routers = map[string]func(page http.Handler) http.Handler{
	"stdlib": func(page http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(prefix+"/", page)
		return mux
	},
	"stdlib, stripped": func(page http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(prefix, http.StripPrefix(prefix, page))
		mux.Handle(prefix+"/", http.StripPrefix(prefix, page))
		return mux
	},
	"chi": func(page http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Mount(prefix, page)
		return r
	},
	"chi, stripped": func(page http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Route("/ops", func(r chi.Router) { r.Mount("/limits", http.StripPrefix(prefix, page)) })
		return r
	},
	"gin": func(page http.Handler) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		r.Any(prefix+"/*file", gin.WrapH(page))
		return r
	},
	"echo": func(page http.Handler) http.Handler {
		e := echov4.New()
		e.Any(prefix+"*", echov4.WrapHandler(page))
		return e
	},
	"echov5": func(page http.Handler) http.Handler {
		e := echov5.New()
		e.Any(prefix+"*", echov5.WrapHandler(page))
		return e
	},
}

// In every router, the prefix without its slash redirects to the page, the page works below the prefix, and other paths are not found.
func TestRouters(t *testing.T) {
	for name, mount := range routers {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, telemetry.Options{})
			server := httptest.NewServer(mount(dashboard.New(s.telemetry, dashboard.WithReset(anybody))))
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			p := open(t, server.URL+prefix)
			expect.Equal(t, eval[string](p, "location.pathname"), prefix+"/", "the page is at")
			resp, err := http.Get(server.URL + prefix + "/none")
			must.Do(t, err)
			resp.Body.Close()
			expect.Equal(t, resp.StatusCode, http.StatusNotFound, "an unknown path")
			s.ask(4, "ann")
			p.wait(`document.getElementById("top").innerText.includes("api")`)
			eval[bool](p, `(document.querySelector("#top button").click(), true)`)
			p.wait(`document.getElementById("state").innerText.includes("0 of 3 left")`)
			eval[bool](p, `(document.getElementById("reset").click(), true)`)
			p.wait(`document.getElementById("state").innerText.includes("3 of 3 left")`)
		})
	}
}

// A stream is open only while its page is open.
func TestStreamEndsWithThePage(t *testing.T) {
	page := dashboard.New(newScene(t, telemetry.Options{}).telemetry)
	var streams atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			streams.Add(1)
			defer streams.Add(-1)
		}
		page.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p := open(t, server.URL+"/")
	expect.Equal(t, streams.Load(), 1, "streams open")
	eval[bool](p, `(Object.defineProperty(document, "hidden", {value: true}), document.dispatchEvent(new Event("visibilitychange")))`)
	for begun := time.Now(); streams.Load() != 0; time.Sleep(20 * time.Millisecond) {
		must.True(t, time.Since(begun) <= limit, "the stream of a hidden page stays open")
	}
}
