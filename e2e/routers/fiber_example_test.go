package routers

import (
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func withFiber(limiter *core.Limiter, h fiber.Handler) *fiber.App {
	app := fiber.New()
	app.Use(adaptor.HTTPMiddleware(stdlib.New(limiter)))
	app.Get("/items/:id", h)
	return app
}
