package keyfunc

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
)

const auth = "Authorization"

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// Each row is one Authorization line, or several separated by a newline. A want of "" means that there is no key of this
// scheme, so that First goes on; "bad" that there is one that an application might serve, and First must not go on.
func TestAuthorization(t *testing.T) {
	token := "bearer:" + sha("t0k.en==")
	for _, row := range []struct {
		why, lines    string
		bearer, basic string
	}{
		{"a token", "Bearer t0k.en==", token, ""},
		{"the scheme in any case", "bEARER t0k.en==", token, ""},
		{"more spaces, which RFC 9110 allows", "Bearer  t0k.en== ", token, ""},
		{"a token that is no base64", "Bearer 1|ab:c/d", "bearer:" + sha("1|ab:c/d"), ""},
		{"a name", basic("ann", "pw"), "", "basic:ann"},
		{"the password does not matter", basic("ann", ""), "", "basic:ann"},
		{"the name ends at the first colon", basic("ann", "p:w"), "", "basic:ann"},
		{"the other scheme in any case", "bASIC" + strings.TrimPrefix(basic("ann", "pw"), "Basic"), "", "basic:ann"},
		{"another scheme", "Digest username=ann", "", ""},
		{"empty", "", "", ""},
		{"blank", " \t", "", ""},

		{"two tokens", "Bearer a\nBearer b", "bad", "bad"},
		{"a token twice", "Bearer a\nBearer a", "bad", "bad"},
		{"another scheme first", basic("ann", "pw") + "\nBearer a", "bad", "bad"},
		{"an empty line first", "\nBearer a", "bad", "bad"},
		{"an empty line last", "Bearer a\n", "bad", "bad"},
		{"two names", basic("ann", "pw") + "\n" + basic("bob", "pw"), "bad", "bad"},

		{"no token", "Bearer", "bad", "bad"},
		{"no token after the space", "Bearer ", "bad", "bad"},
		{"no token after spaces", "bearer   ", "bad", "bad"},
		{"a tab", "Bearer\tt0k.en==", "bad", "bad"},
		{"a tab and a space", "Bearer\t t0k.en==", "bad", ""},
		{"a tab after the space", "Bearer \tt0k.en==", token, ""},
		{"a space that is not ASCII", "Bearer\u00a0t0k.en==", "bad", "bad"},
		{"another separator", "Bearer:t0k.en==", "bad", "bad"},
		{"a separator that is none", "Bearer=t0k en", "bad", ""},
		{"a longer scheme", "Bearers t0k", "bad", ""},
		{"no scheme", "t0k.en==", "bad", "bad"},
		{"a scheme before the scheme", "Token Bearer t0k.en==", "bad", ""},
		{"a letter before the scheme", "xBearer t0k.en==", "bad", ""},
		{"the scheme twice", "Bearer Bearer t0k.en==", "bad", ""},
		{"two words", "Bearer a b", "bad", ""},
		{"two words and a tab", "Bearer a\tb", "bad", ""},
		{"a list", "Bearer a,b", "bad", ""},
		{"a list of credentials", "Bearer a, Bearer b", "bad", ""},
		{"quotes", `Bearer "a"`, "bad", ""},
		{"a token that is not ASCII", "Bearer t\u00f6ken", "bad", ""},
		{"a zero-width space", "Bearer t0k\u200b", "bad", ""},
		{"a control character", "Bearer t0k\x7f", "bad", ""},

		{"an empty name", basic("", "pw"), "", "bad"},
		{"no colon", "Basic " + base64.StdEncoding.EncodeToString([]byte("ann")), "", "bad"},
		{"no base64", "Basic !", "", "bad"},
		{"no credentials", "Basic ", "bad", "bad"},
		{"a tab before the credentials", strings.Replace(basic("ann", "pw"), " ", "\t", 1), "bad", "bad"},
		{"two spaces, which net/http rejects", strings.Replace(basic("ann", "pw"), " ", "  ", 1), "", "bad"},
		{"a control character in the name", basic("ann\n", "pw"), "", "bad"},
		{"NUL in the name", basic("ann\x00", "pw"), "", "bad"},
		{"DEL in the name", basic("ann\x7f", "pw"), "", "bad"},
	} {
		t.Run(row.why, func(t *testing.T) {
			r := request("203.0.113.9:1")
			r.Header[auth] = strings.Split(row.lines, "\n")
			for _, c := range []struct {
				fn   core.KeyFunc
				want string
			}{{Bearer, row.bearer}, {BasicUser, row.basic}} {
				if c.want != "" {
					checkKey(t, c.fn, r, c.want)
					checkKey(t, First(c.fn, RemoteIP), r, c.want)
					continue
				}
				checkKey(t, c.fn, r, "error")
				checkKey(t, First(c.fn, RemoteIP), r, "ip:203.0.113.9")
			}
		})
	}
	checkKey(t, Bearer, request(""), "error")
	checkKey(t, BasicUser, request(""), "error")
}
