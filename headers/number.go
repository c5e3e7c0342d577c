package headers

import (
	"strconv"
	"sync/atomic"
)

// numbers remembers the texts of numbers shown lately: most responses show limits, seconds and remainders that others have
// shown, and a look-up takes a tenth of the time that writing one does.
var numbers [8192]atomic.Pointer[numeral]

type numeral struct {
	n    int64
	text string
}

// number returns n in decimal digits. It is for numbers that are likely to be shown again soon.
func number(n int64) string {
	p := &numbers[uint64(n)%uint64(len(numbers))]
	if t := p.Load(); t != nil && t.n == n {
		return t.text
	}
	t := &numeral{n, strconv.FormatInt(n, 10)}
	p.Store(t)
	return t.text
}

// twoNumbers returns a and b in decimal digits. If they are so large that others are not likely to show the same, it
// remembers neither and allocates once.
func twoNumbers(a, b int64) (string, string) {
	if few := int64(len(numbers)); 0 <= a && a < few && 0 <= b && b < few {
		return number(a), number(b)
	}
	var buffer [40]byte
	both := strconv.AppendInt(buffer[:0], a, 10)
	n := len(both)
	text := string(strconv.AppendInt(both, b, 10))
	return text[:n], text[n:]
}
