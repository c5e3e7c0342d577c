package rulefile_test

import (
	"context"
	"log"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/rulefile"
)

func ExampleWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	funcs := rulefile.Funcs{Keys: map[string]core.KeyFunc{"user": keyfunc.BasicUser}}
	file, err := rulefile.Load("spillgate.yaml", funcs)
	if err != nil {
		log.Print(err) // every mistake, with its line and column
		return
	}
	admin := core.Rule{Name: "admin", Key: keyfunc.BasicUser, Limits: []core.Limit{core.PerMinute(10)}, Routes: []string{"/admin/"}}
	limiter := core.Must(core.New(append(file.Rules, admin))) // all other rules are in the file
	go func() {
		_ = rulefile.Watch(ctx, "spillgate.yaml", limiter, funcs, rulefile.Options{Also: []core.Rule{admin}})
	}()
}
