package echotest

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

func respondToErrors[C Context, H ~func(C) error](next H) H {
	return func(c C) error {
		if err := next(c); err != nil {
			return c.NoContent(http.StatusTeapot)
		}
		return nil
	}
}

func recoverPanics[C Context, H ~func(C) error](next H) H {
	return func(c C) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("%v", v)
			}
		}()
		return next(c)
	}
}

// A delayed writer behaves like Gzip: it sends the status later, and a shorter body.
type delayed struct {
	http.ResponseWriter
	status int
}

func (w *delayed) WriteHeader(status int) { w.status = status }
func (w *delayed) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(p[:len(p)/2])
	return len(p), err
}
func (w *delayed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Delay sends the status once the handlers inside have returned.
func (v Version[E, C, H, M, R]) Delay(next H) H {
	return func(c C) error {
		w := &delayed{v.Writer(c), 0}
		v.SetWriter(c, w)
		defer func() {
			if w.status != 0 {
				w.ResponseWriter.WriteHeader(w.status)
			}
		}()
		return next(c)
	}
}

func (v Version[E, C, H, M, R]) record(next H) H {
	return func(c C) error {
		v.Record(c)
		return next(c)
	}
}

// An Ending is a way in which a request can end. A nil middleware is none.
type Ending[C Context, H ~func(C) error, M ~func(H) H] struct {
	Around, Inside M
	Handle         H
	Silent         bool // the error handler does not respond
	Status, Wire   int  // of the outcome, and of the response that the client gets
	Err            bool // of the outcome
}

// endings are the endings for both versions.
func (v Version[E, C, H, M, R]) endings() map[string]Ending[C, H, M] {
	oops := errors.New("oops")
	returning := func(err error) H { return func(C) error { return err } }
	responding := func(status int, err error) H {
		return func(c C) error {
			_ = c.NoContent(status)
			return err
		}
	}
	panicking := func(C) error { panic("oops") }
	bypassing := func(err error) H { // writes past echo's Response
		return func(c C) error {
			http.Error(v.Below(c), "no", http.StatusUnauthorized)
			return err
		}
	}
	forbidden := v.NewHTTPError(http.StatusForbidden, "no")
	respond, recovering := M(respondToErrors[C, H]), M(recoverPanics[C, H])
	return map[string]Ending[C, H, M]{
		"an HTTPError":                              {Handle: returning(forbidden), Status: 403, Wire: 403},
		"another error":                             {Handle: returning(oops), Status: 500, Wire: 500},
		"a response of 400 and an error":            {Handle: responding(400, oops), Status: 400, Wire: 400},
		"a response of 200 and an error":            {Handle: responding(200, oops), Status: 200, Wire: 200, Err: true},
		"an error without a response":               {Handle: returning(oops), Silent: true, Status: 200, Wire: 200, Err: true},
		"a middleware inside responds to the error": {Inside: respond, Handle: returning(oops), Status: 418, Wire: 418},
		"a middleware around sees the error":        {Around: respond, Handle: returning(forbidden), Status: 403, Wire: 403},
		"a Recover inside":                          {Inside: recovering, Handle: panicking, Status: 500, Wire: 500},
		"a Recover around":                          {Around: recovering, Handle: panicking, Status: 500, Wire: 500, Err: true},
		"a response past echo":                      {Handle: bypassing(nil), Status: 401, Wire: 401},
		"a response past echo, and an error":        {Handle: bypassing(oops), Status: 401, Wire: 401},
		"a response past echo after a reader that fails": {Handle: func(c C) error {
			_, _ = io.Copy(v.Below(c), iotest.ErrReader(io.ErrUnexpectedEOF))
			return bypassing(nil)(c)
		}, Status: 401, Wire: 401},
		"a recorded response": {Inside: v.record, Handle: responding(401, nil), Status: 401, Wire: 200},
		"a delayed response":  {Around: v.Delay, Handle: responding(401, nil), Status: 401, Wire: 401},
		"a status":            {Handle: func(c C) error { return c.String(http.StatusAccepted, "ok") }, Status: 202, Wire: 202},
	}
}

// instance returns an instance with one route, in front of which rule is watched. A nil middleware is none.
func (v Version[E, C, H, M, R]) instance(rule core.Rule, around, inside M, handle H) E {
	e := v.New()
	for _, m := range []M{around, v.limit(rule, core.WithStore(adaptertest.Admitting{})), inside} {
		if m != nil {
			e.Use(m)
		}
	}
	e.Add(http.MethodGet, "/", handle)
	return e
}

// watching returns a rule that stores the outcomes of its requests in got.
func watching(got *[]core.Outcome) core.Rule {
	rule := core.PerHour(9).By(anyone)
	rule.CostAfter = func(_ *http.Request, o core.Outcome) int {
		*got = append(*got, o)
		return 0
	}
	return rule
}

// testOutcome checks the outcome that Rule.CostAfter gets where echo takes part in the response.
func (v Version[E, C, H, M, R]) testOutcome(t *testing.T, more map[string]Ending[C, H, M]) {
	all := v.endings()
	maps.Copy(all, more)
	for why, end := range all {
		var got []core.Outcome
		e := v.instance(watching(&got), end.Around, end.Inside, end.Handle)
		v.SetErrorHandler(e, func(c C, err error) {
			if !end.Silent {
				v.HandleError(c, err)
			}
		})
		w := serve(e, http.MethodGet, "/")
		expect.True(t, len(got) == 1 && got[0].Status == end.Status && (got[0].Err != nil) == end.Err,
			"%s: the outcomes are %+v, want status %d, error %v", why, got, end.Status, end.Err)
		expect.Equal(t, w.Code, end.Wire, "%s: the client", why)
	}
}

// testBytes counts the bytes of a body where a middleware or the handler bypasses echo's Response.
func (v Version[E, C, H, M, R]) testBytes(t *testing.T) {
	through := func(c C) error { return c.String(http.StatusOK, "four") }
	past := func(c C) error { _, err := io.WriteString(v.Below(c), "four"); return err }
	for why, end := range map[string]Ending[C, H, M]{
		"through echo":          {Handle: through},
		"past echo":             {Handle: past},
		"through echo, delayed": {Around: v.Delay, Handle: through},
		"past echo, delayed":    {Around: v.Delay, Handle: past},
		"recorded":              {Inside: v.record, Handle: through},
	} {
		var got []core.Outcome
		serve(v.instance(watching(&got), end.Around, end.Inside, end.Handle), http.MethodGet, "/")
		expect.True(t, len(got) == 1 && got[0].Bytes == 4, "%s: the outcomes are %+v, want 4 bytes", why, got)
	}
}

// testHead checks that an HTTP/2 server, which ends the stream of HEAD after the header, fails no handler that writes a body.
func (v Version[E, C, H, M, R]) testHead(t *testing.T) {
	for failure, handle := range map[error]H{
		nil:    func(c C) error { return c.HTML(http.StatusOK, strings.Repeat("x", 1<<16)) },
		io.EOF: func(c C) error { _ = c.String(http.StatusOK, "ok"); return io.EOF },
	} {
		var got []core.Outcome
		e := v.instance(watching(&got), nil, nil, handle)
		e.Add(http.MethodHead, "/", handle)
		ended := make(chan bool)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			e.ServeHTTP(w, r)
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		resp, err := s.Client().Head(s.URL)
		must.Do(t, err)
		resp.Body.Close()
		<-ended
		s.Close()
		expect.True(t, len(got) == 1 && got[0] == core.Outcome{Cost: 1, Status: http.StatusOK, Err: failure}, "the outcomes are %+v, want error %v", got, failure)
	}
}

// testErrorIsHandledOnce checks that the adapter does not call the error handler if the handler has responded: echo itself calls it once.
func (v Version[E, C, H, M, R]) testErrorIsHandledOnce(t *testing.T) {
	rule := core.PerHour(9).By(anyone)
	rule.CostAfter = core.Failures
	for why, around := range map[string]M{"alone": nil, "delayed": v.Delay} {
		calls := 0
		e := v.instance(rule, around, nil, func(c C) error {
			_ = c.NoContent(http.StatusUnauthorized)
			return errors.New("oops")
		})
		v.SetErrorHandler(e, func(C, error) { calls++ })
		serve(e, http.MethodGet, "/")
		expect.Equal(t, calls, 1, "%s: calls", why)
	}
}

// A compressed writer compresses a body, like Gzip.
type compressed struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w compressed) Write(p []byte) (int, error) { return w.z.Write(p) }
func (w compressed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// testCallInGzip checks that the adapter reads the status of a call before Gzip compresses the response.
func (v Version[E, C, H, M, R]) testCallInGzip(t *testing.T) {
	for envelope, want := range map[string]int{"\x02\x00\x00\x00\x02{}": 200, "\x02\x00\x00\x00\x1c{\"error\":{\"code\":\"aborted\"}}": 409} {
		var got []core.Outcome
		e := v.New()
		e.Use(func(next H) H {
			return func(c C) error {
				w := compressed{v.Writer(c), gzip.NewWriter(v.Writer(c))}
				defer func() { _ = w.z.Close() }()
				v.SetWriter(c, w)
				return next(c)
			}
		}, v.limit(watching(&got)))
		e.Add(http.MethodPost, "/", func(c C) error {
			v.Response(c).WriteHeader(http.StatusOK)
			_, err := io.WriteString(v.Response(c), envelope)
			return err
		})
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", "application/connect+json")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		expect.True(t, len(got) == 1 && got[0].Status == want && w.Body.String() != envelope,
			"%q: the outcomes are %+v, want status %d; body %q", envelope, got, want, w.Body)
	}
}
