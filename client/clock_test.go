package client

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// TestLateResponseFromTheOldWindow has two requests in flight while a window ends. The response to the first request
// is from the new window. The second request, sent just before that response arrives, gets a response from the old window. The
// client must not conclude that the window's Reset moves back.
func TestLateResponseFromTheOldWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr Transport
		begun := time.Now()
		send := func() *exchange {
			r := must.Get(http.NewRequest(http.MethodGet, "http://api.example/", nil))(t)
			e := &exchange{req: r, key: tr.keyOf(r)}
			must.Do(t, tr.wait(e))
			return e
		}
		answer := func(e *exchange, at, reset time.Duration, left string) {
			tr.settle(e, &http.Response{StatusCode: 200, Header: http.Header{
				"Date": {begun.Add(at).UTC().Format(http.TimeFormat)}, "X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {left},
				"X-Ratelimit-Reset": {strconv.FormatInt(begun.Add(reset).Unix(), 10)},
			}})
		}
		answer(send(), 0, time.Minute, "90")
		first, second := send(), send()
		answer(first, time.Minute, 2*time.Minute, "99")
		answer(second, 58*time.Second, time.Minute, "88")
		b := first.account.budgets[0]
		if want := begun.Add(2 * time.Minute).Unix(); b.kind == moving || b.reset != want {
			t.Errorf("kind %v, reset %d; want a window that is renewed at %d", b.kind, b.reset, want)
		}
	})
}
