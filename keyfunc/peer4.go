package keyfunc

// peer4 returns the key of a peer whose RemoteAddr is an IPv4 address with a port, or "" for any other. Such an address
// has only one text, so the key is a copy of it: this avoids parsing and formatting on the hot path.
func peer4(remote string) string {
	n := lengthOf4(remote)
	if n == 0 || n == len(remote) || !validPort(remote[n:]) {
		return ""
	}
	var b [len("ip:255.255.255.255")]byte
	return string(append(append(b[:0], "ip:"...), remote[:n]...))
}

// lengthOf4 returns the length of the IPv4 address that s starts with, or 0. Like netip, it requires four numbers
// without leading zeros.
func lengthOf4(s string) int {
	i := 0
	for octet := range 4 {
		if octet > 0 {
			if i == len(s) || s[i] != '.' {
				return 0
			}
			i++
		}
		start, n := i, uint(0)
		for end := min(i+3, len(s)); i < end; i++ {
			digit := uint(s[i]) - '0'
			if digit > 9 {
				break
			}
			n = n*10 + digit
		}
		if i == start || n > 255 || s[start] == '0' && i > start+1 {
			return 0
		}
	}
	return i
}
