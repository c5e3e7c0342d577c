package keyfunc

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

const alphanumerics = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func TestTokenChar(t *testing.T) {
	for c := range 256 {
		want := strings.Contains("!#$%&'*+-.^_`|~"+alphanumerics, string([]byte{byte(c)}))
		expect.Equal(t, tokenChar(byte(c)), want, "%#x: %v", c, !want)
	}
}

// The result must be the key that net/http stores the header under.
func TestAppendCanonical(t *testing.T) {
	names := []string{"CF-Connecting-IP", "x--y", "-", "x_y-Z.a", "X-FORWARDED-FOR"}
	for _, c := range alphanumerics {
		names = append(names, "-"+string(c)+string(c))
	}
	for _, name := range names {
		expect.Equal(t, string(appendCanonical(nil, name)), http.CanonicalHeaderKey(name), "%q", name)
	}
}

const auth = "Authorization"

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// Each row is one Authorization line, or several separated by newlines. A want of "" means that there is no key of this scheme, so that
// First continues. "bad" means that an application might accept the credential, so First must not continue.
func TestAuthorization(t *testing.T) {
	token := "bearer:" + sha("t0k.en==")
	for _, row := range []struct {
		why, lines, bearer, basic string
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

// TestBasicUserFoldsSpellings checks that all spellings of a name have one key, and that different names have different keys.
func TestBasicUserFoldsSpellings(t *testing.T) {
	for want, spellings := range map[string][]string{
		"basic:ann": {
			"ann", "ANN", "aNn", " ann", "ann ", "\u00a0ann\u3000", " \u2003 Ann", "a\u200bnn", "\ufeffann", "ann\u00ad", "a\u200dn\u2060n", "ann\u202e",
			"an\ufe0fn", "an\U000e0101n", "ann\u3164", "ann\u034f", "ann\u0085", "\u200b ann \u200b", "a\U000e0041nn", "ann\u061c",
		},
		"basic:kiss":       {"kiss", "KISS", "\u212aiss", "ki\u017f\u017f"},
		"basic:σοφοσ":      {"σοφος", "ΣΟΦΟΣ", "σοφοσ"},
		"basic:größe":      {"größe", "GRÖßE", "GRÖ\u1e9eE"},
		"basic:a b":        {"a b", "A B"},
		"basic:a  b":       {"a  b"},
		"basic:\xe4nn":     {"\xe4nn", "\xe4NN", " \xe4nn"},
		"basic:\xf6nn":     {"\xf6nn"},
		"basic:\ufffdnn":   {"\ufffdnn"},
		"basic:ann1":       {"ann1"},
		"basic:\uff41nn":   {"\uff41nn", "\uff21nn"}, // full width
		"basic:a\u0308nn":  {"a\u0308nn"},
		"basic:änn":        {"änn", "Änn"},
		"basic:\u0430nn":   {"\u0430nn", "\u0410nn"}, // Cyrillic
		"basic:ann@x.test": {"Ann@X.test"},
	} {
		for _, name := range spellings {
			r := request("203.0.113.9:1", auth, basic(name, "pw"))
			checkKey(t, BasicUser, r, want)
		}
		checkKey(t, BasicUser, request("203.0.113.9:1", auth, basic(strings.TrimPrefix(want, "basic:"), "pw")), want)
	}
	for _, name := range []string{" ", "\u200b", " \u00a0\ufeff", "\u3164"} {
		checkKey(t, BasicUser, request("203.0.113.9:1", auth, basic(name, "pw")), "bad")
	}
}
