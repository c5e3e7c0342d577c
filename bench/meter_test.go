package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
)

func TestMetered(t *testing.T) {
	readings := []float64{100, 7, 160, 11}
	next := func() (float64, error) {
		v := readings[0]
		readings = readings[1:]
		return v, nil
	}
	s, err := metered(func() (sample, error) { return sample{20, 5, 6}, nil }, next, next)()
	want := (sample{3, 0.2, 5, 6})
	expect.True(t, err == nil && slices.Equal(s, want), "got %v, %v, want %v", s, err, want)
	broken := errors.New("broken")
	_, err = metered(func() (sample, error) { return nil, broken })()
	expect.ErrorIs(t, err, broken, "a measure that fails")
	_, err = metered(func() (sample, error) { return sample{1}, nil }, func() (float64, error) { return 0, broken })()
	expect.ErrorIs(t, err, broken, "a meter that fails")
}

// The bench compares decisions whatever command makes them.
func TestScriptTimeCountsScriptsAndFunctions(t *testing.T) {
	const work = "for i = 1, 200000 do end return 1"
	ctx, client := t.Context(), testClient(t)
	if err := client.FunctionLoad(ctx, "#!lua name=l\nredis.register_function{function_name = 'f', callback = function() "+work+
		" end, flags = {'no-writes'}}").Err(); err != nil {
		t.Fatal(err)
	}
	sha, read := client.ScriptLoad(ctx, work).Val(), scriptTime(client)
	for _, c := range []struct {
		name   string
		do     func() error
		counts bool
	}{
		{"EVAL", func() error { return client.Eval(ctx, work, nil).Err() }, true},
		{"EVALSHA", func() error { return client.EvalSha(ctx, sha, nil).Err() }, true},
		{"EVALSHA_RO", func() error { return client.EvalShaRO(ctx, sha, nil).Err() }, true},
		{"FCALL", func() error { return client.FCall(ctx, "f", nil).Err() }, true},
		{"FCALL_RO", func() error { return client.FCallRO(ctx, "f", nil).Err() }, true},
		{"SET", func() error { return client.Set(ctx, "k", 1, 0).Err() }, false},
	} {
		before, err := read()
		err = errors.Join(err, c.do())
		after, failed := read()
		err = errors.Join(err, failed)
		expect.True(t, err == nil && (after > before) == c.counts, "%s: from %v to %v µs, %v", c.name, before, after, err)
	}
}
