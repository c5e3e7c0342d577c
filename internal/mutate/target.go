package main

// A target is a file and the tests that ought to notice when it is wrong.
type target struct {
	file  string
	pkg   string
	first string // tests that notice most mistakes, and soon; they run before the others
	skip  string // tests that say nothing about the file, or take too long
}

// stages returns the flags of the runs that t takes, one after the other.
func (t target) stages() (flags []string) {
	if t.first != "" {
		flags = append(flags, "-test.run="+t.first)
	}
	return append(flags, "-test.skip="+t.skip)
}

const (
	coreFirst = "Model|Contract|Rare|Table|Divisor|Books"
	coreSlow  = "Herd|Flapping|Probe|Breaker|Allocates|Links|NeverLate"
	inHeap    = "Flood|Heap|" + coreSlow // for files that have nothing to do with the bound on memory

	redisFirst = "Model|FuzzKey|TestKeys|Expir|Corrupt|Plain|Stored"
	redisSlow  = "Cluster|Failover|EightProcesses|NewMaster|Migrates|Ring|TestMiniredis$|Deadline|Bounded|ADenial|Warned|ScriptFlush|" +
		"SameRequest|Remembered|AtOnce|FirstWait|ErrorsOfTheServer|LostReply|NobodyWaits|Allkeys|SeveralSlots|FlightThatHangs|ManyKeys"
)

var targets = []target{
	{"core/arithmetic.go", "core", coreFirst, inHeap},
	{"core/tokenbucket.go", "core", coreFirst, inHeap},
	{"core/fixedwindow.go", "core", coreFirst, inHeap},
	{"core/sliding.go", "core", coreFirst, inHeap},
	{"core/scale.go", "core", coreFirst, inHeap},
	{"core/takeone.go", "core", coreFirst, inHeap},
	{"core/takeknown.go", "core", coreFirst, inHeap},
	{"core/shard.go", "core", coreFirst, coreSlow},
	{"core/table.go", "core", coreFirst, coreSlow},
	{"core/meter.go", "core", coreFirst, coreSlow},
	{"core/deciding.go", "core", coreFirst, coreSlow},
	{"core/slab.go", "core", coreFirst, coreSlow},
	{"internal/redisx/key.go", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/usage.go", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/arithmetic.lua", "internal/redisx", "Lua", redisSlow},
	{"internal/redisx/lua/words.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/tokenbucket.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/fixedwindow.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/slidingwindow.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/slidinglog.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/plan.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/expiry.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/pair.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/meter.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/bucket.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/buckets.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/decide.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/reply.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/take.lua", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/refund.lua", "internal/redisx", redisFirst, redisSlow},
}
