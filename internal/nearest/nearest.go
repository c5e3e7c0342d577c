// Package nearest suggests the known word that is most similar to a misspelled word.
//
//	nearest.Word("limts", []string{"limits", "match"}) // "limits"
package nearest

import "strings"

// Word returns the known word that word is most likely a misspelling of, or "" if none is similar. It ignores case. A
// word is similar to a known word if it is its beginning, or if at most a third of its letters (at least one, but not
// all) are wrong.
func Word(word string, known []string) string {
	const longest = 64 // no known word is similar to a longer one
	word = strings.ToLower(strings.TrimSpace(word))
	if word == "" || len(word) > longest {
		return ""
	}
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, k := range known {
		d := distance(word, strings.ToLower(k))
		if len(word) > 2 && strings.HasPrefix(strings.ToLower(k), word) {
			d = min(d, 1)
		}
		if d < bestDistance && d < len(k) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance returns how many letters must be inserted, deleted, replaced or swapped with the next one to turn a into b: the
// optimal string alignment distance.
func distance(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}
