package calls

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// detailsOf returns the details of an error of connect-go or grpc-go.
func detailsOf(t *testing.T, err error) (all []proto.Message) {
	t.Helper()
	var c *connect.Error
	if errors.As(err, &c) {
		for _, d := range c.Details() {
			m, err := d.Value()
			expect.NoError(t, err, "detail %s", d.Type())
			all = append(all, m)
		}
		return all
	}
	for _, d := range status.Convert(err).Details() {
		m, ok := d.(proto.Message)
		if !ok {
			t.Errorf("detail %v", d)
			continue
		}
		all = append(all, m)
	}
	return all
}

func want(t *testing.T, err error, code codes.Code, details ...proto.Message) {
	t.Helper()
	expect.True(t, codeOf(err) == code, "%v, want code %v", err, code)
	got := detailsOf(t, err)
	if len(got) != len(details) {
		t.Errorf("details %v, want %v", got, details)
		return
	}
	for i, d := range details {
		expect.True(t, proto.Equal(got[i], d), "detail %v, want %v", got[i], d)
	}
}

func retryIn(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

func quota(rules ...string) *errdetails.QuotaFailure {
	f := new(errdetails.QuotaFailure)
	for _, rule := range rules {
		f.Violations = append(f.Violations, &errdetails.QuotaFailure_Violation{Subject: rule})
	}
	return f
}

// A verdict is a store that admits nothing.
type verdict struct {
	wait time.Duration
	err  error
}

func (v verdict) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for _, c := range claims {
		dst = append(dst, core.Result{Rule: c.Rule, Limit: c.Limits[0], RetryAfter: v.wait, At: time.Now()})
	}
	return dst, v.err
}

func (verdict) Settle(context.Context, []core.Settlement) error { return nil }
func (verdict) Reset(context.Context, []core.Pair) error        { return nil }

func limiterOf(store core.Store, key core.KeyFunc, names ...string) *core.Limiter {
	var rules []core.Rule
	for _, name := range names {
		rules = append(rules, core.Rule{Name: name, Key: key, Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed})
	}
	return core.Must(core.New(rules, core.WithStore(store), core.WithLogger(slog.New(slog.DiscardHandler))))
}

func noKey(*http.Request) (string, error) { return "", core.ErrNoKey }

// A denial is what a limiter makes of every call.
type denial struct {
	limiter *core.Limiter
	code    codes.Code
	details []proto.Message
}

// denials returns all responses that the adapters write, by their causes.
func denials() map[string]denial {
	broken := func(*http.Request) (string, error) { return "", io.ErrUnexpectedEOF }
	return map[string]denial{
		"denied":            {limiterOf(verdict{wait: 90*time.Second + 1}, keyfunc.Const("all"), "login"), codes.ResourceExhausted, []proto.Message{retryIn(90001 * time.Millisecond), quota("login")}},
		"never":             {limiterOf(verdict{wait: core.Never}, keyfunc.Const("all"), "login"), codes.ResourceExhausted, []proto.Message{quota("login")}},
		"no key":            {limiterOf(verdict{}, noKey, "login"), codes.InvalidArgument, nil},
		"a key func":        {limiterOf(verdict{}, broken, "login"), codes.Internal, nil},
		"the store is down": {limiterOf(verdict{err: io.ErrUnexpectedEOF}, keyfunc.Const("all"), "login"), codes.Unavailable, []proto.Message{retryIn(5 * time.Second)}},
	}
}

// TestDenied checks the error that each client returns for each response of the adapters and of grpclimit.
func TestDenied(t *testing.T) {
	for _, s := range servings() {
		for why, d := range denials() {
			l := new(login)
			for _, c := range s.clients(t, l, apps.Guard{Limiter: d.limiter}) {
				for _, kind := range kinds {
					if !c.can(kind) {
						continue
					}
					t.Run(strings.Join([]string{s.name, why, c.name, kind}, ", "), func(t *testing.T) {
						want(t, c.within(t, kind, right), d.code, d.details...)
					})
				}
			}
			expect.AtMost(t, l.ran.Load(), 0, "%s, %s: the handler ran", s.name, why)
		}
	}
}

// TestEncoding compares the details, which the adapters encode by hand, with genproto's.
func TestEncoding(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, wait := range []time.Duration{0, 1, time.Millisecond, time.Second - 1, time.Second, 90 * time.Minute, 1e6 * time.Hour, math.MaxInt64 - 1, core.Never} {
		for _, rules := range [][]string{{"login"}, {"login", "a-rule-of-another-name"}, {long}} {
			t.Run(fmt.Sprintf("%v %d", wait, len(rules[0])), func(t *testing.T) {
				h := stdlib.New(limiterOf(verdict{wait: wait}, keyfunc.Const("all"), rules...))(http.NotFoundHandler())
				send := func(fields ...string) *httptest.ResponseRecorder {
					r := httptest.NewRequest(http.MethodPost, pathOf(unary), nil)
					for i := 0; i < len(fields); i += 2 {
						r.Header.Set(fields[i], fields[i+1])
					}
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					return w
				}
				var details []proto.Message
				if wait != core.Never {
					up := wait.Truncate(time.Millisecond)
					if up < wait {
						up += time.Millisecond
					}
					if up < wait { // does not fit a Duration
						details = append(details, &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 9223372036, Nanos: 855_000_000}})
					} else {
						details = append(details, retryIn(up))
					}
				}
				details = append(details, quota(rules...))

				w := send("Content-Type", "application/grpc")
				s := &spb.Status{Code: int32(codes.ResourceExhausted), Message: w.Header().Get("Grpc-Message")}
				for _, d := range details {
					s.Details = append(s.Details, must.Get(anypb.New(d))(t))
				}
				bin := must.Get(proto.MarshalOptions{Deterministic: true}.Marshal(s))(t)
				expect.Equal(t, w.Header().Get("Grpc-Status-Details-Bin"), base64.RawStdEncoding.EncodeToString(bin), "details")

				var failure struct {
					Details []struct{ Type, Value string }
				}
				must.Do(t, json.Unmarshal(send("Content-Type", "application/json", "Connect-Protocol-Version", "1").Body.Bytes(), &failure))
				for i, d := range failure.Details {
					value, err := base64.RawStdEncoding.DecodeString(d.Value)
					must.True(t, err == nil && i < len(details) && d.Type == string(details[i].ProtoReflect().Descriptor().FullName()),
						"detail %+v, %v", d, err)
					got := details[i].ProtoReflect().New().Interface()
					if err := proto.Unmarshal(value, got); err != nil || !proto.Equal(got, details[i]) {
						t.Errorf("detail %v, %v, want %v", got, err, details[i])
					}
				}
				expect.Equal(t, len(failure.Details), len(details), "details")
			})
		}
	}
}
