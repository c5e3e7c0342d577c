package redisx

import (
	"context"
	"testing"

	"github.com/spillgate/spillgate/internal/redistest"
)

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
