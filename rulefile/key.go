package rulefile

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// keyNames are the built-in key funcs.
var keyNames = []string{"ip", "bearer", "basic", "method", "pattern", "apikey", "header", "cookie", "const", "first", "join"}

// A keyReader reads a key: a name or a name with arguments in parentheses.
type keyReader struct {
	*reader
	at     *node
	forms  *keyForms
	offset int
	wrong  bool
	names  int // read so far
}

// parseKey returns the key func that the text of n describes, or nil after a mistake.
func (r *reader) parseKey(n *node, forms *keyForms) core.KeyFunc {
	k := &keyReader{reader: r, at: n, forms: forms}
	key := k.key(0)
	if rest := k.rest(); !k.wrong && rest != "" {
		k.fail("unexpected %q after the key", rest)
	}
	if k.wrong {
		return nil
	}
	return key
}

func (k *keyReader) rest() string { return k.at.text[k.offset:] }

func (k *keyReader) skipSpace() {
	k.offset += len(k.rest()) - len(strings.TrimLeft(k.rest(), " \t\n"))
}

// fail records the first mistake of a key. Further mistakes would only follow from the first.
func (k *keyReader) fail(format string, args ...any) {
	if !k.wrong {
		k.add(k.at.within(k.offset), format, args...)
	}
	k.wrong = true
}

// word reads up to a comma or a parenthesis.
func (k *keyReader) word() (word string, offset int) {
	k.skipSpace()
	offset = k.offset
	end := strings.IndexAny(k.rest(), "(),")
	if end < 0 {
		end = len(k.rest())
	}
	word = strings.TrimRight(k.rest()[:end], " \t\n")
	k.offset += end
	return word, offset
}

func (k *keyReader) key(depth int) core.KeyFunc {
	name, offset := k.word()
	end := k.offset
	k.names++
	k.offset = offset // the place of mistakes
	call := end < len(k.at.text) && k.at.text[end] == '('
	switch {
	case depth > 8:
		k.fail("this key is nested too deep")
		return nil
	case k.names > 100:
		k.fail("this key has more than 100 parts")
		return nil
	case name == "":
		k.fail("a key is missing here, such as ip")
		return nil
	case !slices.Contains(keyNames, name):
		key := k.ofProgram(name, call)
		k.offset = end
		return key
	case call != takesArguments(name):
		k.failCall(name, call)
		return nil
	}
	k.offset = end
	if call {
		return k.call(name, offset, depth)
	}
	if need, ok := map[string]string{"bearer": "header Authorization", "basic": "user", "pattern": "route pattern"}[name]; ok {
		k.needs = append(k.needs, need)
	}
	if name == "ip" {
		k.forms.address = true
	} else {
		k.forms.add(map[string]string{"bearer": "bearer:", "basic": "basic:", "method": "method:", "pattern": "route:"}[name])
	}
	return map[string]core.KeyFunc{
		"ip": k.ip, "bearer": keyfunc.Bearer, "basic": keyfunc.BasicUser, "method": keyfunc.Method, "pattern": keyfunc.Pattern,
	}[name]
}

func takesArguments(name string) bool {
	return slices.Contains([]string{"apikey", "header", "cookie", "const", "first", "join"}, name)
}

func (k *keyReader) failCall(name string, call bool) {
	if call {
		k.fail("key %s takes no arguments", name)
		return
	}
	k.fail("key %s wants an argument: %s(..)", name, name)
}

// ofProgram returns the key func that the program supplies under name.
func (k *keyReader) ofProgram(name string, call bool) core.KeyFunc {
	key, ok := find(k.reader, k.at.within(k.offset), name, "key", k.funcs.Keys, unknownKey, keyNames)
	k.wrong = k.wrong || !ok
	k.forms.any = true
	if ok && call {
		k.fail("key %s is a function of the program and takes no arguments", name)
	}
	return key
}

// call reads the arguments of a key func and constructs it.
func (k *keyReader) call(name string, offset, depth int) core.KeyFunc {
	k.offset++ // (
	if name == "first" || name == "join" {
		before := *k.forms
		keys := k.keys(depth, name == "first")
		if name == "join" {
			*k.forms = before
			k.forms.add("join:")
		}
		return k.make(name, offset, func() core.KeyFunc {
			if name == "first" {
				return keyfunc.First(keys...)
			}
			return keyfunc.Join(keys...)
		})
	}
	argument, _ := k.word()
	if !strings.HasPrefix(k.rest(), ")") {
		k.fail("want ) after the argument of %s", name)
		return nil
	}
	k.offset++
	switch name {
	case "apikey", "header":
		k.needs = append(k.needs, "header "+http.CanonicalHeaderKey(argument))
	case "cookie":
		k.needs = append(k.needs, "header Cookie")
	}
	k.forms.add(map[string]string{
		"apikey": "key:", "header": "header:" + strings.ToLower(argument) + ":", "cookie": "cookie:" + argument + ":", "const": "const:" + argument,
	}[name])
	return k.make(name, offset, func() core.KeyFunc {
		return map[string]func(string) core.KeyFunc{
			"apikey": keyfunc.APIKey, "header": keyfunc.Header, "cookie": keyfunc.Cookie, "const": keyfunc.Const,
		}[name](argument)
	})
}

// keys reads keys that are separated by commas, and the parenthesis after them. It warns of keys behind the first one that every
// request has.
func (k *keyReader) keys(depth int, first bool) (keys []core.KeyFunc) {
	for !k.wrong {
		k.skipSpace()
		start := k.offset
		keys = append(keys, k.key(depth+1))
		one := k.at.text[start:k.offset]
		k.skipSpace()
		switch {
		case k.wrong:
		case strings.HasPrefix(k.rest(), ","):
			if first && (one == "ip" || one == "method" || strings.HasPrefix(one, "const(")) {
				k.warn(k.at.within(start), fmt.Sprintf("key: every request has %s, so first(..) uses none of the keys behind it; put it last", one))
			}
			k.offset++
		case strings.HasPrefix(k.rest(), ")"):
			k.offset++
			k.skipSpace()
			return keys
		default:
			k.fail("want , or ) after a key")
		}
	}
	return keys
}

// make calls a constructor of package keyfunc, which panics if its argument is invalid, and records the panic as a
// mistake.
func (k *keyReader) make(name string, offset int, construct func() core.KeyFunc) core.KeyFunc {
	if k.wrong {
		return nil
	}
	end := k.offset
	defer func() {
		k.offset = end
		if v := recover(); v != nil {
			k.offset = offset
			text := strings.TrimPrefix(fmt.Sprint(v), "spillgate: ")
			k.fail("key %s: %s", name, strings.TrimPrefix(text, "invalid: "))
		}
	}()
	return construct()
}
