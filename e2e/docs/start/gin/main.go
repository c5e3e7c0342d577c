package main

import (
	"log"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

func main() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))

	r := gin.Default()
	r.Use(ginlimit.New(limiter))
	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello\n") })
	log.Fatal(r.Run("127.0.0.1:8080"))
}
