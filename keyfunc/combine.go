package keyfunc

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spillgate/spillgate/core"
)

var errEmpty = fmt.Errorf("the key func returned an empty key: %w", core.ErrNoKey)

// Join combines keys, so that each combination is counted separately: "join:user:42|route:/users/{id}". Different lists
// of keys never give the same key, because "|" and "\" within a key are escaped with "\". All fns must find a key. If
// several fail, Join returns the first error that is not ErrNoKey or, if all are, the first error. Join panics without
// fns, or if one of them is nil.
//
// If clients can forge one of the keys, they can forge combinations.
func Join(fns ...core.KeyFunc) core.KeyFunc {
	checkFuncs("Join", fns...)
	fns = slices.Clone(fns)
	return func(r *http.Request) (string, error) {
		var buf [128]byte
		b := append(buf[:0], "join:"...)
		var missing error
		for i, fn := range fns {
			key, err := call(fn, r)
			if err != nil && !absent(err) {
				return "", err
			}
			if missing == nil {
				missing = err
			}
			if i > 0 {
				b = append(b, '|')
			}
			b = appendEscaped(b, key)
		}
		if missing != nil {
			return "", missing
		}
		return string(b), nil
	}
}

// First uses the first of fns that finds a key. It tries the next func only after ErrNoKey and returns any other error
// at once, including ErrBadKey, because an ambiguous credential must not count as absent. If no func finds a key, First
// joins the errors of all. Put a func that finds a key in every request, such as RemoteIP, last. First panics without fns, or if one of them is nil.
//
// A client that forges the key of an earlier func is not counted under a later one. So either put only verified
// identities first, or also give the last func its own rule.
func First(fns ...core.KeyFunc) core.KeyFunc {
	checkFuncs("First", fns...)
	fns = slices.Clone(fns)
	return func(r *http.Request) (string, error) {
		var buf [4]error
		errs := buf[:0]
		for _, fn := range fns {
			key, err := call(fn, r)
			if err == nil || !absent(err) {
				return key, err
			}
			errs = append(errs, err)
		}
		return "", errors.Join(errs...)
	}
}

// absent reports whether err is only that the request has no key.
func absent(err error) bool {
	return errors.Is(err, core.ErrNoKey) && !errors.Is(err, core.ErrBadKey) && !errors.Is(err, core.ErrInvalid)
}

// call returns the key that fn finds in r. An empty key is an error: all requests without a key would share it.
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

// checkFuncs panics if fns is empty or one of them is nil. The text names the constructor.
func checkFuncs(name string, fns ...core.KeyFunc) {
	if len(fns) == 0 {
		panic(misuse("%s needs at least one key func", name))
	}
	for i, fn := range fns {
		if fn == nil {
			panic(misuse("%s: key func %d of %d is nil", name, i+1, len(fns)))
		}
	}
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
