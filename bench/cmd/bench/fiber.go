package main

import (
	"net"
	"net/http"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
)

// fiber serves the same API on fiber, bare or under its idempotency middleware as that comes.
func (c *counter) fiber(guarded bool) site {
	app := fiber.New()
	app.Get("/stats", func(ctx fiber.Ctx) error { return ctx.JSON(c.stats()) })
	if guarded {
		app.Use(idempotency.New())
	}
	app.Post("/charges", func(ctx fiber.Ctx) error {
		n := c.executed.Add(1)
		ctx.Set(fiber.HeaderContentType, "application/json")
		return ctx.Status(http.StatusCreated).SendString(answer(n))
	})
	return site{
		serve: func(l net.Listener) error {
			return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
		},
		shut:  app.Shutdown,
		close: func() error { return nil },
	}
}
