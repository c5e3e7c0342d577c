module github.com/spillgate/spillgate

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.30.5
	github.com/go-chi/chi/v5 v5.0.8
	github.com/goccy/go-yaml v1.17.1
	github.com/redis/go-redis/v9 v9.6.1
	go.uber.org/goleak v1.1.12
	pgregory.net/rapid v1.1.0
)

require (
	github.com/alicebob/gopher-json v0.0.0-20200520072559-a9ecdc9d1d3a // indirect
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/yuin/gopher-lua v1.1.0 // indirect
)
