package redisx

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/testpass"
)

// arithmetic runs functions of number.lua on a server.
type arithmetic struct {
	source string
	client *redis.Client
}

func newArithmetic(_ *testing.T, client *redis.Client) *arithmetic {
	return &arithmetic{source: read("number"), client: client}
}

// eval returns the number that a Lua expression stands for.
func (a *arithmetic) eval(t *testing.T, expression string) int64 {
	t.Helper()
	text, err := a.client.Eval(context.Background(), a.source+"\nreturn string.format('%d', "+expression+")", nil).Text()
	if err != nil {
		t.Fatal(expression, err)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(expression, err)
	}
	return n
}

// quotient returns a·b/c, rounded up or down.
func quotient(a, b, c int64, up bool) int64 {
	n := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	if up {
		n.Add(n, big.NewInt(c-1))
	}
	n.Div(n, big.NewInt(c))
	if !n.IsInt64() || n.Int64() > algorithm.MaxExact {
		return algorithm.MaxExact
	}
	return n.Int64()
}

func TestLuaArithmeticIsExact(t *testing.T) {
	testpass.Thorough(t)
	mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { mini.Close() })
	for _, client := range []*redis.Client{mini, redistest.Start(t).Client(t)} {
		a := newArithmetic(t, client)
		for _, n := range [][3]int64{
			{0, 1, 1}, {1, 1, 2}, {3, 1, 3}, {4, 1, 3}, {algorithm.MaxExact, 1, 1}, {algorithm.MaxExact, 1, 2}, {algorithm.MaxExact, 1, 3}, {algorithm.MaxExact - 1, 1, 1_000_000_000},
			{algorithm.MaxExact - 1, 1, algorithm.MaxExact}, {algorithm.MaxExact, 1, algorithm.MaxExact}, {algorithm.MaxExact - 1, 1, algorithm.MaxExact - 2}, {algorithm.MaxExact, 1000, 1}, {algorithm.MaxExact, 999, 1000},
			{algorithm.MaxExact, 1, 1000}, {6004799503160661, 3, 2}, {6004799503160662, 3, 2}, {1, 315_360_000_000_000, 315_360_000}, {algorithm.MaxExact, 315_360_000, 315_360_000_000_000},
			{algorithm.MaxExact - 1, 315_360_000_000_000, 315_360_000_000_001}, {1 << 52, 1, 1}, {1<<52 + 1, 1, 2}, {1 << 52, 7, 3},
		} {
			a.check(t, n[0], n[1], n[2])
		}
		for range 300 {
			a.check(t, rand.Int64N(algorithm.MaxExact)>>rand.IntN(50), 1+rand.Int64N(1<<49)>>rand.IntN(45), 1+rand.Int64N(1<<49)>>rand.IntN(45))
		}
	}
}

func (a *arithmetic) check(t *testing.T, x, y, z int64) {
	t.Helper()
	if y < 1<<50 && z < 1<<50 {
		if got, want := a.eval(t, fmt.Sprintf("mulDivUp(%d, %d, %d)", x, y, z)), quotient(x, y, z, true); got != want {
			t.Errorf("%d·%d/%d: %d, want %d", x, y, z, got, want)
		}
	}
	if got, want := a.eval(t, fmt.Sprintf("ceilDiv(%d, %d)", x, z)), quotient(x, 1, z, true); got != want {
		t.Errorf("%d/%d rounded up: %d, want %d", x, z, got, want)
	}
	if got, want := a.eval(t, fmt.Sprintf("floorDiv(%d, %d)", x, z)), quotient(x, 1, z, false); got != want {
		t.Errorf("%d/%d rounded down: %d, want %d", x, z, got, want)
	}
}

// The scripts pack words themselves on servers without the library struct.
func TestWordsAreTheSameWithoutStruct(t *testing.T) {
	client := redistest.Start(t).Client(t)
	source := read("number", "word") + `
		local own, form, numbers = wordsWithoutStruct(), formats[5], {0, 1, 255, 1800000000000000, maxExact}
		local text = own.pack(form, unpack(numbers))
		local back = {own.unpack(form, 'x' .. text, 2)}
		for i, n in ipairs(numbers) do
			if back[i] ~= n then
				return 'word ' .. i .. ' reads ' .. format('%d', back[i])
			end
		end
		return text == struct.pack('<I8I8I8I8I8', unpack(numbers)) and 'alike' or 'not alike'`
	if got, err := client.Eval(context.Background(), source, nil).Text(); err != nil || got != "alike" {
		t.Errorf("%s, %v", got, err)
	}
}
