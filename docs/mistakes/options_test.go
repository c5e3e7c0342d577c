package mistakes

import (
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/telemetry"
)

func redisWith(opts ...redisstore.Option) func() error {
	return options(core.WithStore(redisstore.New(redis.NewClient(&redis.Options{}), opts...)))
}

var ofOptions = []mistake{
	{"a nil option", options(core.WithTimeout(1), nil), "option 2 of 2", "is nil", "leave it out"},
	{"a nil store", options(core.WithStore(nil)), "WithStore", "store is nil", "leave the option out"},
	{"two stores", options(core.WithStore(new(core.MemoryStore)), core.WithStore(new(core.MemoryStore))), "WithStore", "a second store", "a limiter has one"},
	{"a nil skip", options(core.WithSkip(nil)), "WithSkip", "skip is nil", "want a func"},
	{"a nil observer", options(core.WithObserver(nil)), "WithObserver", "observer is nil", "want a func"},
	{"a nil logger", options(core.WithLogger(nil)), "WithLogger", "logger is nil", "leave the option out for slog.Default"},
	{"no timeout", options(core.WithTimeout(0)), "WithTimeout", "got 0s", "must be positive"},
	{"a nil fallback", options(core.WithFallback(nil)), "WithFallback", "fallback is nil", "leave the option out for a MemoryStore"},
	{"two fallbacks", options(core.WithFallback(new(core.MemoryStore)), core.WithFallback(new(core.MemoryStore))), "WithFallback", "a second fallback", "a limiter has one"},
	{"less than no keys", options(core.WithStore(&core.MemoryStore{MaxKeys: -1})), "MemoryStore: MaxKeys", "got -1", "must not be negative"},

	{"no client", options(core.WithStore(redisstore.New(nil))), "redisstore", "client is nil", "want one such as redis.NewClient returns"},
	{"a nil option of Redis", redisWith(nil), "redisstore", "option is nil", "leave it out"},
	{"no prefix", redisWith(redisstore.WithPrefix("")), "redisstore: WithPrefix", "prefix is empty", "want the name of your service"},
	{"a prefix with a brace", redisWith(redisstore.WithPrefix("a{b")), "redisstore: WithPrefix", `"a{b"`, "must be printable ASCII without spaces, braces or backslashes"},
	{"a short secret", redisWith(redisstore.WithKeySecret([]byte("x"))), "redisstore: WithKeySecret", "got 1", "at least 16 bytes"},
	{"less than nothing", redisWith(redisstore.WithDenyCache(-1)), "redisstore: WithDenyCache", "got -1", "0 turns the cache off"},

	{"no limiter", panicOf(func() { stdlib.New(nil) }), "spillgate", "the limiter is nil", "want one that core.New returned"},
	{"a nil option of an adapter", panicOf(func() { stdlib.New(new(core.Limiter), stdlib.WithHeaders(nil), nil) }), "option 2 of 2", "is nil", "leave it out"},
	{"a nil option of the page", panicOf(func() { dashboard.New(telemetry.New(telemetry.Options{}), nil) }), "dashboard.New: option 1 of 1", "is nil", "leave it out"},
	{"no telemetry", panicOf(func() { dashboard.New(nil) }), "dashboard.New", "got nil", "such as telemetry.New returns"},
	{"a host with a port", panicOf(func() { dashboard.WithHosts("admin.example.com:8443") }), "dashboard.WithHosts", `"admin.example.com:8443"`, "without scheme and port"},
	{"no authorization", panicOf(func() { dashboard.WithReset(nil) }), "dashboard.WithReset", "got nil", "a func that says which senders may reset"},
	{"a limiter that New did not make", func() error {
		_, err := new(core.Limiter).Check(new(http.Request))
		return err
	}, "limiter", "was not made", "by New"},
}
