package keyfunc

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spillgate/spillgate/core"
)

var errEmpty = fmt.Errorf("the key func returned an empty key: %w", core.ErrNoKey)

// Join counts each combination of keys separately: "join:user:42|route:GET /users/{id}". Different lists of keys never
// give the same one, as "|" and "\" within a key are escaped with "\". Each part is needed: the first error of one is
// the error of the join. Without funcs, or with one that is nil, the key func fails with ErrInvalid.
//
// A joined key is as good as its parts together: if any part can be forged, so can fresh combinations.
func Join(fns ...core.KeyFunc) core.KeyFunc {
	if err := checkFuncs("Join", fns); err != nil {
		return failing(err)
	}
	fns = slices.Clone(fns)
	return func(r *http.Request) (string, error) {
		var buf [128]byte
		b := append(buf[:0], "join:"...)
		for i, fn := range fns {
			key, err := call(fn, r)
			if err != nil {
				return "", err
			}
			if i > 0 {
				b = append(b, '|')
			}
			b = appendEscaped(b, key)
		}
		return string(b), nil
	}
}

// First is the key of the first of fns that finds one. It goes on to the next only if one fails with ErrNoKey; any
// other error is its error. If none finds a key, the error is that of all. Without funcs, or with one that is nil, the
// key func fails with ErrInvalid.
//
// Whoever makes up what an earlier func finds is not counted by the later ones: put first only what was verified, or
// give the last one a rule of its own as well.
func First(fns ...core.KeyFunc) core.KeyFunc {
	if err := checkFuncs("First", fns); err != nil {
		return failing(err)
	}
	fns = slices.Clone(fns)
	return func(r *http.Request) (string, error) {
		var buf [4]error
		errs := buf[:0]
		for _, fn := range fns {
			key, err := call(fn, r)
			if err == nil || !errors.Is(err, core.ErrNoKey) {
				return key, err
			}
			errs = append(errs, err)
		}
		return "", errors.Join(errs...)
	}
}

// call returns the key that fn finds in r. An empty key is an error: it would be one key for all who have none.
func call(fn core.KeyFunc, r *http.Request) (string, error) {
	key, err := fn(r)
	if err != nil {
		return "", err
	}
	if key == "" {
		return "", errEmpty
	}
	return key, nil
}

func checkFuncs(name string, fns []core.KeyFunc) error {
	if len(fns) == 0 {
		return invalid("%s needs at least one key func", name)
	}
	for i, fn := range fns {
		if fn == nil {
			return invalid("%s: key func %d is nil", name, i+1)
		}
	}
	return nil
}

func appendEscaped(b []byte, key string) []byte {
	for i := range len(key) {
		if key[i] == '|' || key[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, key[i])
	}
	return b
}
