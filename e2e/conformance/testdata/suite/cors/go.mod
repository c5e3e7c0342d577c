module github.com/rs/cors

go 1.26.0

require (
	github.com/gin-gonic/gin v1.12.0
	github.com/go-chi/chi/v5 v5.5.0
	github.com/labstack/echo/v4 v4.16.0
	github.com/labstack/echo/v5 v5.4.4
	github.com/spillgate/spillgate v0.1.0
	github.com/spillgate/spillgate/middleware/echo v0.1.0
	github.com/spillgate/spillgate/middleware/echov5 v0.1.0
	github.com/spillgate/spillgate/middleware/gin v0.1.0
	github.com/spillgate/spillgate/middleware/grpc v0.1.0
	google.golang.org/grpc v1.84.0
)
