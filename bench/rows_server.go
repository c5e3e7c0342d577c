package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var serverTime = unit{value: "server µs/decision", extra: "decisions/s"}

func serverRows() []*row {
	return []*row{{
		name: "Redis, processor time of the server", unit: serverTime, open: openServerTime,
		bounds: []bound{toBest(0.6)},
		task:   "256 callers over 10000 keys: how much of its one core the server takes for a decision.",
	}}
}

func openServerTime(e *env, f *setup) error {
	for _, s := range redisStores {
		if s.role == note {
			continue
		}
		client, err := e.client(f)
		if err != nil {
			return err
		}
		store := s.open(plenty, client)
		f.add(store.Name, s.role, e.timeServer(client, e.load(store, 256, uniform(redisKeys), admitted, count)))
	}
	return nil
}

// count reads how many decisions there were, and how many per second.
func count(took []uint32, elapsed time.Duration) sample {
	return sample{value: float64(len(took)), extra: float64(len(took)) / elapsed.Seconds()}
}

// timeServer returns a measure of the processor time of the server for each decision that decide counts.
func (e *env) timeServer(client *redis.Client, decide func() (sample, error)) func() (sample, error) {
	warm := false
	return func() (sample, error) {
		if !warm {
			warm = true
			if _, err := decide(); err != nil {
				return sample{}, err
			}
		}
		before, err := serverSeconds(client)
		if err != nil {
			return sample{}, err
		}
		s, err := decide()
		if err != nil {
			return sample{}, err
		}
		after, err := serverSeconds(client)
		return sample{value: (after - before) / s.value * 1e6, extra: s.extra}, err
	}
}

// serverSeconds returns the processor time that the server has taken.
func serverSeconds(client *redis.Client) (sum float64, err error) {
	text, err := client.Info(context.Background(), "cpu").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s of the server: %w", name, err)
		}
		sum += seconds
	}
	return sum, nil
}
