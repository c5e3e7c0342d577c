package recipes

import (
	"context"
	"log"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/rulefile"
)

// live returns a limiter with the rules of a file. Until ctx is done, each valid change to the file takes effect within seconds.
func live(ctx context.Context, path string, funcs rulefile.Funcs, opts ...core.Option) (*core.Limiter, error) {
	file, err := rulefile.Load(path, funcs)
	if err != nil {
		return nil, err // every mistake, with its line and column
	}
	limiter, err := core.New(file.Rules, opts...)
	if err != nil {
		return nil, err
	}
	go func() {
		if err := rulefile.Watch(ctx, path, limiter, funcs, rulefile.Options{}); err != nil {
			log.Print(err)
		}
	}()
	return limiter, nil
}
