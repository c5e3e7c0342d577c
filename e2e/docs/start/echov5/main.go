package main

import (
	"log"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

func main() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))

	e := echo.New()
	e.Use(echolimit.New(limiter))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello\n") })
	if err := e.Start("127.0.0.1:8080"); err != nil { // nil after SIGINT or SIGTERM
		log.Fatal(err)
	}
}
