package rulefile

import (
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// A resolver finds functions by the names that a file uses.
type resolver struct {
	funcs    Funcs
	also     []core.Rule     // rules of the program that apply together with the rules of the file
	assume   bool            // declared names stand for functions of any kind
	offline  bool            // the key ip is a RemoteAddr without a port
	needs    []string        // parts of a request that the current rule reads: see File.Needs
	declared map[string]spot // under funcs
}

// all returns the names of all functions that the program supplies, in order.
func (f Funcs) all() []string {
	names := slices.Collect(maps.Keys(f.Keys))
	names = slices.AppendSeq(names, maps.Keys(f.Tiers))
	names = slices.AppendSeq(names, maps.Keys(f.Costs))
	names = slices.AppendSeq(names, maps.Keys(f.CostsAfter))
	names = slices.AppendSeq(names, maps.Keys(f.Matches))
	slices.Sort(names)
	return slices.Compact(names)
}

// declare reads the names under funcs.
func (r *reader) declare(f field) {
	r.declared = make(map[string]spot)
	if f.key == nil {
		return
	}
	supplied := r.funcs.all()
	for i, n := range r.texts(f) {
		if i == maxFuncs {
			r.add(n.spot, "there are more than %d names", maxFuncs)
			break
		}
		switch _, isSupplied := slices.BinarySearch(supplied, n.text); {
		case r.isRepeated(r.declared, n.text, n.spot):
		case !isName(n.text):
			r.add(n.spot, "%q is not a name: want letters, digits, _, - and .", n.text)
		case n.text == "failures", slices.Contains(keyNames, n.text):
			r.add(n.spot, "%s is built in; give the function another name", n.text)
		case !r.assume && !isSupplied:
			r.add(n.spot, "the program supplies no function %s%s", n.text, r.supplies(n.text, supplied))
		}
	}
}

func (r *reader) supplies(name string, supplied []string) string {
	if len(supplied) == 0 {
		return ": it supplies none"
	}
	return r.didYouMean(name, supplied)
}

func isName(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == "" && s != ""
}

// find returns the function of a name. It reports false after a mistake, which it adds at a spot.
func find[F any](r *reader, at spot, name, what string, funcs map[string]F, assumed F, known []string) (f F, ok bool) {
	_, declared := r.declared[name]
	r.needs = append(r.needs, "function "+name)
	if r.assume && declared {
		return assumed, true
	}
	if f, ok = funcs[name]; ok {
		if ok = !reflect.ValueOf(f).IsNil(); !ok {
			r.add(at, "the program supplies nil as the function %s", name)
		}
		return f, ok
	}
	if declared {
		if slices.Contains(r.funcs.all(), name) {
			r.add(at, "%s is not a %s function of the program", name, strings.TrimSuffix(what, " function"))
		} // otherwise the declaration is the mistake
		return f, false
	}
	if !r.suggests() {
		r.add(at, "unknown %s %q", what, name)
		return f, false
	}
	names := slices.Sorted(maps.Keys(funcs))
	if r.assume { // nobody knows of which kind they are
		names = slices.Sorted(maps.Keys(r.declared))
	}
	known = slices.Concat(known, names)
	if len(known) == 0 {
		r.add(at, "unknown %s %q; functions of the program are named under funcs", what, name)
		return f, false
	}
	r.add(at, "unknown %s %q%s", what, name, r.didYouMean(name, known))
	return f, false
}

// The functions that replace the program's functions.
var (
	assumedKey   core.KeyFunc = func(*http.Request) (string, error) { return "assumed", nil }
	unknownKey   core.KeyFunc = func(*http.Request) (string, error) { return "", errors.New("a function of the program decides") }
	assumedTier               = func(*http.Request) string { return "" }
	assumedCost               = func(*http.Request) int { return 1 }
	assumedFinal              = func(_ *http.Request, o core.Outcome) int { return o.Cost }
	assumedMatch              = func(*http.Request) bool { return true }
)
