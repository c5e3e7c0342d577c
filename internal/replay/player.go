package replay

import (
	"context"
	"hash/maphash"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/rulefile"
)

// maxKeys is how many keys the store of a replay holds.
const maxKeys = 50_000_000

// Options say how to replay.
type Options struct {
	AtStart    bool              // decide requests when they began, where the log says how long they took
	SkipStatus map[int]bool      // requests with such an answer are not decided
	Knows      func(string) bool // reports whether the logs have what rulefile.File.Needs calls so
	Progress   func(entries int) // called now and then
}

// A player decides entries with a limiter.
type player struct {
	limiter *core.Limiter
	now     time.Time
	request *http.Request
	url     url.URL

	seed    maphash.Seed
	rules   []*tally
	byName  map[string]*tally
	plain   bool // count nothing but refused
	refused bool // by any rule, for the entry that is being decided
	ends    endQueue
	errs    int
	lastErr error
}

// A tally is what a rule did.
type tally struct {
	rule    core.Rule
	asked   int
	refused int
	clients map[uint64]clientTally
	names   map[uint64]string // of those that were refused
}

type clientTally struct{ asked, refused uint32 }

// Durations is what rules with limits of requests in flight need besides what rulefile.File.Needs says.
const Durations = "durations, with --at start"

// newPlayer returns a player with the rules of a file that can be decided, and why the others cannot, by name.
func newPlayer(f *rulefile.File, knows func(need string) bool) (*player, map[string]string, error) {
	p := &player{seed: maphash.MakeSeed(), byName: make(map[string]*tally)}
	p.request = &http.Request{URL: &p.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	left := make(map[string]string)
	var rules []core.Rule
	for i, rule := range f.Rules {
		needs := f.Needs(i)
		if hasInFlight(rule.Limits) {
			needs = append(needs, Durations)
		}
		if lacks := lacking(needs, knows); lacks != "" {
			left[rule.Name] = lacks
			continue
		}
		p.byName[rule.Name] = &tally{rule: rule, clients: make(map[uint64]clientTally), names: make(map[uint64]string)}
		p.rules = append(p.rules, p.byName[rule.Name])
		rules = append(rules, rule)
	}
	if len(rules) == 0 {
		return p, left, nil
	}
	store := &core.MemoryStore{MaxKeys: maxKeys, Now: func() time.Time { return p.now }}
	l, err := core.New(rules, core.WithStore(store), core.WithObserver(p.observe))
	p.limiter = l
	return p, left, err
}

func lacking(needs []string, knows func(string) bool) string {
	var lacks []string
	for _, need := range needs {
		if !knows(need) {
			lacks = append(lacks, need)
		}
	}
	return strings.Join(lacks, ", ")
}

// decide decides an entry at an instant. Time does not go back.
func (p *player) decide(e *accesslog.Entry, at time.Time) {
	p.advance(at)
	p.refused = false
	p.set(e)
	if p.limiter == nil {
		return
	}
	d, err := p.limiter.Check(p.request)
	if err != nil {
		p.fail(err)
		return
	}
	if d.Allowed {
		p.hold(d, e)
	}
}

func (p *player) fail(err error) {
	if err != nil {
		p.errs++
		p.lastErr = err
	}
}

// set makes the request that the server had received.
func (p *player) set(e *accesslog.Entry) {
	r := p.request
	r.Method, r.Host, r.RemoteAddr, r.Header = e.Method, e.Host, e.Client, e.Header
	if r.Header == nil {
		r.Header = http.Header{}
	}
	target, query, _ := strings.Cut(e.Target, "?")
	if strings.HasPrefix(target, "/") && !strings.ContainsAny(target, "%\\") {
		p.url = url.URL{Path: target, RawQuery: query}
	} else if u, err := url.ParseRequestURI(e.Target); err == nil {
		p.url = *u
		if u.Host != "" {
			r.Host = u.Host
		}
	} else {
		p.url = url.URL{Path: target, RawQuery: query}
	}
	if e.User != "" {
		r.Header.Del("Authorization")
		r.SetBasicAuth(e.User, "")
	}
}

// observe counts what each rule did. A request is refused by a rule if one of its own limits refuses it.
func (p *player) observe(_ context.Context, o *core.Observation) {
	if o.Outcome != nil || o.Err != nil {
		return
	}
	results := o.Results
	for _, c := range o.Claims {
		refused := false
		for range min(len(c.Limits), len(results)) {
			refused = refused || !results[0].Allowed
			results = results[1:]
		}
		t := p.byName[c.Rule]
		p.refused = p.refused || refused && !t.rule.DryRun
		if !p.plain {
			t.count(maphash.String(p.seed, c.Key), c.Key, refused)
		}
	}
}

func (t *tally) count(hash uint64, key string, refused bool) {
	c := t.clients[hash]
	t.asked++
	c.asked++
	if refused {
		t.refused++
		if c.refused++; c.refused == 1 {
			t.names[hash] = strings.Clone(key)
		}
	}
	t.clients[hash] = c
}
