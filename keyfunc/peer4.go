package keyfunc

// peer4 returns the key of a peer whose RemoteAddr is an IPv4 address with a port, or "" for any other. Such an address
// has only one text, so the key is a copy of it: this avoids parsing and formatting on the hot path. Like netip, peer4
// requires four numbers without leading zeros.
func peer4(remote string) string {
	dots, number, digits := 0, 0, 0
	for i := range len(remote) {
		c := remote[i]
		switch {
		case '0' <= c && c <= '9':
			if number = number*10 + int(c-'0'); number > 255 || digits > 0 && number < 10 {
				return ""
			}
			digits++
		case digits == 0:
			return ""
		case c == '.' && dots < 3:
			dots, number, digits = dots+1, 0, 0
		case c == ':' && dots == 3 && validPort(remote[i:]):
			var b [len("ip:255.255.255.255")]byte
			return string(append(append(b[:0], "ip:"...), remote[:i]...))
		default:
			return ""
		}
	}
	return ""
}
