package main

// A target is a file and the tests that ought to notice when it is wrong.
type target struct {
	file string
	pkg  string
	skip string // tests that say nothing about the file, or take too long
}

const (
	slowInCore  = "Flood|Heap|Herd|Flapping|Allocates|Links"
	slowInRedis = "Cluster|Failover|EightProcesses|NewMaster|Migrates|Ring|TestMiniredis$|Deadline|Bounded|ADenialLasts|Warned|ScriptFlush"
)

var targets = []target{
	{"core/arithmetic.go", "./core", slowInCore},
	{"core/tokenbucket.go", "./core", slowInCore},
	{"core/fixedwindow.go", "./core", slowInCore},
	{"core/sliding.go", "./core", slowInCore},
	{"core/scale.go", "./core", slowInCore},
	{"core/deciding.go", "./core", "Heap|Herd|Flapping|Links"},
	{"core/meter.go", "./core", "Heap|Herd|Flapping|Links"},
	{"core/takeone.go", "./core", slowInCore},
	{"core/shard.go", "./core", "Herd|Flapping|Links"},
	{"core/slab.go", "./core", "Herd|Flapping|Links"},
	{"internal/redisx/key.go", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/arithmetic.lua", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/tokenbucket.lua", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/fixedwindow.lua", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/slidingwindow.lua", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/slidinglog.lua", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/pair.lua", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/meter.lua", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/take.lua", "./internal/redisx", slowInRedis},
	{"internal/redisx/lua/refund.lua", "./internal/redisx", slowInRedis},
}
