package main

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/rulefile"
)

func newExplain() *cobra.Command {
	var headers []string
	var client string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain FILE METHOD PATH",
		Short: "Say which rules of a file apply to a request, with its keys, and why not the others",
		Example: "  spillgate explain spillgate.yaml POST /login\n" +
			"  spillgate explain spillgate.yaml GET /api/x -H 'X-Plan: pro'",
		Args: wantArguments("FILE", "METHOD", "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := request(args[1], args[2], headers)
			if err != nil {
				return err
			}
			if client != "" {
				a, err := netip.ParseAddr(client)
				if err != nil {
					return misuse("%q is not an address such as 10.1.2.3", client)
				}
				r.RemoteAddr = netip.AddrPortFrom(a, 1).String()
			}
			file, err := readRules(args[0])
			if err != nil {
				return err
			}
			all, err := file.Explain(r)
			switch {
			case err != nil:
				return err
			case asJSON:
				return printJSON(cmd.OutOrStdout(), all)
			}
			return explain(cmd.OutOrStdout(), r, all)
		},
	}
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "a header `field` of the request, such as 'X-Plan: pro'; repeatable")
	cmd.Flags().StringVar(&client, "client", "", "the `address` of the client, such as 10.1.2.3; needed for the key ip, and if the file skips addresses")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// request returns the request that a server would receive.
func request(method, target string, headers []string) (*http.Request, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, misuse("%q is not a path such as /login: %v", target, err)
	}
	r := &http.Request{Method: method, URL: u, Host: u.Host, Header: make(http.Header)}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" {
			return nil, misuse("%q is not a header field such as 'X-Plan: pro'", h)
		}
		if !strings.EqualFold(name, "Host") {
			r.Header.Add(name, value)
		} else if u.Host == "" { // a server ignores Host if the target is a URL
			r.Host = value
		}
	}
	return r, nil
}

// explain prints the rules that apply in full, and one line for each other rule.
func explain(w io.Writer, r *http.Request, all []rulefile.Explanation) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.Method, r.URL)
	others := 0
	for _, e := range all {
		if e.Applies == "no" {
			others++
			continue
		}
		b.WriteString("\n" + details(e))
	}
	if others == len(all) {
		b.WriteString("\nNo rule applies.\n")
	}
	if others > 0 {
		b.WriteString("\nRules that do not apply:\n")
	}
	for _, e := range all {
		if e.Applies == "no" {
			fmt.Fprintf(&b, "  %s: %s\n", e.Rule, strings.Join(e.Why, "; "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// details returns the fields of a rule that applies, one per line.
func details(e rulefile.Explanation) string {
	title := e.Rule + " applies"
	if e.Applies == "depends" {
		title = e.Rule + " applies if functions of the program say so"
	}
	if e.DryRun {
		title += ", as a dry run: it never denies"
	}
	text := title + "\n"
	for _, line := range [][2]string{
		{"why", strings.Join(e.Why, "; ")}, {"key", e.Key}, {"client key", e.ClientKey}, {"no key", e.NoKey}, {"limits", e.Limits}, {"tiers", e.Tiers}, {"own limits", e.OwnLimits}, {"overrides", overridesText(e.Overrides)}, {"cost", e.Cost}, {"cost after", e.CostAfter}, {"on failure", e.OnFailure}, {"lease", e.Lease}, {"max wait", e.MaxWait},
	} {
		if line[1] != "" {
			text += fmt.Sprintf("  %-10s  %s\n", line[0], line[1])
		}
	}
	return text
}

// overridesText says how many keys have limits of their own, or "".
func overridesText(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 key or network has limits of its own"
	}
	return fmt.Sprintf("%d keys and networks have limits of their own", n)
}
