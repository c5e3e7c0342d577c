package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A meter returns how many microseconds something has taken so far.
type meter func() (float64, error)

// metered returns a measure of what each meter counts per decision, followed by the numbers of decide without the first
// one, which is the number of decisions.
func metered(decide func() (sample, error), meters ...meter) func() (sample, error) {
	return func() (sample, error) {
		before, err := readAll(meters)
		if err != nil {
			return nil, err
		}
		s, err := decide()
		if err != nil {
			return nil, err
		}
		after, err := readAll(meters)
		for i := range after {
			after[i] = (after[i] - before[i]) / s[0]
		}
		return append(after, s[1:]...), err
	}
}

func readAll(meters []meter) (values sample, err error) {
	for _, read := range meters {
		v, failed := read()
		values, err = append(values, v), errors.Join(err, failed)
	}
	return values, err
}

// own returns a meter of the processor time of this process.
func own() meter {
	cpu := processor()
	return func() (float64, error) { return float64(cpu().Nanoseconds()) / 1000, nil }
}

// serverTime returns a meter of the processor time of a Redis server.
func serverTime(client *redis.Client) meter {
	return func() (sum float64, err error) {
		err = info(client, "cpu", func(name, value string) error {
			if name != "used_cpu_sys" && name != "used_cpu_user" {
				return nil
			}
			seconds, err := strconv.ParseFloat(value, 64)
			sum += seconds * 1e6
			return err
		})
		return sum, err
	}
}

// scriptTime returns a meter of the time that a Redis server has spent in scripts and functions, which includes the
// commands that they call.
func scriptTime(client *redis.Client) meter {
	return func() (sum float64, err error) {
		err = info(client, "commandstats", func(name, value string) error {
			switch strings.TrimSuffix(name, "_ro") {
			default:
				return nil
			case "cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall":
			}
			_, value, _ = strings.Cut(value, "usec=")
			value, _, _ = strings.Cut(value, ",")
			spent, err := strconv.ParseFloat(value, 64)
			sum += spent
			return err
		})
		return sum, err
	}
}

// info calls field with each line of a section of what the server says about itself.
func info(client *redis.Client, section string, field func(name, value string) error) error {
	text, err := client.Info(context.Background(), section).Result()
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if wrong := field(name, value); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s of the server: %w", name, wrong))
		}
	}
	return err
}
