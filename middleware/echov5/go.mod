module github.com/spillgate/spillgate/middleware/echov5

go 1.25.0

require github.com/spillgate/spillgate v0.1.0

require github.com/labstack/echo/v5 v5.0.0

replace github.com/spillgate/spillgate => ../..
