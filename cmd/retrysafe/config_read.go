package main

import (
	"encoding"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A setting is what a file says of one thing, if it says something.
type setting[T any] struct {
	value T
	at    position
	given bool
}

// or returns the value, or another where the file says nothing.
func (s setting[T]) or(other T) T {
	if s.given {
		return s.value
	}
	return other
}

// A reader makes settings of nodes, and gathers what is wrong with them.
type reader struct{ mistakes []mistake }

func (r *reader) wrong(at position, format string, args ...any) {
	r.mistakes = append(r.mistakes, mistake{at, fmt.Sprintf(format, args...)})
}

// keys are those that a mapping may have, each with what reads its value.
type keys map[string]func(node)

// mapping reads a mapping, and tells of every key that is unknown or stands there twice.
func (r *reader) mapping(n node, what string, known keys) {
	if n.kind != isMapping {
		r.wrong(n.at, "%s is %s: want a mapping with keys of %s", what, n.kind, list(known))
		return
	}
	met := map[string]position{}
	for _, f := range n.fields {
		read, ok := known[f.key]
		before, twice := met[f.key]
		switch {
		case !ok:
			r.wrong(f.at, "unknown key %q in %s%s", f.key, what, advice(f.key, known))
			continue
		case twice:
			r.wrong(f.at, "key %q stands there twice, first in line %d: keep one", f.key, before.line)
			continue
		case f.value.kind == isNothing:
			r.wrong(f.at, "key %q has no value: give it one, or leave it out", f.key)
		default:
			read(f.value)
		}
		met[f.key] = f.at
	}
}

// needs tells of a key that is missing in a mapping.
func (r *reader) needs(n node, key, what string) {
	if n.kind == isMapping && !slices.ContainsFunc(n.fields, func(f field) bool { return f.key == key }) {
		r.wrong(n.at, "the key %q is missing: give it %s", key, what)
	}
}

func list(known keys) string { return strings.Join(slices.Sorted(maps.Keys(known)), ", ") }

// advice names the key that was meant, if one is close, and else all there are.
func advice(key string, known keys) string {
	best, least := "", max(len(key)/3, 1)+1
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if d := distance(strings.ReplaceAll(strings.ToLower(key), "_", "-"), name); d < least {
			best, least = name, d
		}
	}
	if best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ": want one of " + list(known)
}

// distance is how many letters must change to make b of a (Levenshtein's).
func distance(a, b string) int {
	if len(a) > len(b)+8 || len(b) > len(a)+8 { // far apart, however long
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// scalar returns what reads a single value into s.
func scalar[T any](r *reader, s *setting[T], parse func(text string) (T, error)) func(node) {
	return func(n node) {
		if n.kind != isText {
			r.wrong(n.at, "want a single value here, not %s", n.kind)
			return
		}
		v, err := parse(n.text)
		if err != nil {
			r.wrong(n.at, "%v", err)
			return
		}
		*s = setting[T]{v, n.at, true}
	}
}

// several returns what reads a list into s. A single value is a list of one.
func several[T any](r *reader, s *setting[[]T], parse func(text string) (T, error)) func(node) {
	return func(n node) {
		items := n.items
		if n.kind == isText {
			items = []node{n}
		}
		if len(items) == 0 || n.kind == isMapping {
			r.wrong(n.at, "want a list here that is not empty, like [a, b]")
			return
		}
		values, before := []T{}, len(r.mistakes)
		for _, item := range items {
			var one setting[T]
			scalar(r, &one, parse)(item)
			values = append(values, one.value)
		}
		if len(r.mistakes) == before {
			*s = setting[[]T]{values, n.at, true}
		}
	}
}

// parseAs reads a value as the flag of its type is read.
func parseAs[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) (v T, err error) {
	return v, P(&v).UnmarshalText([]byte(text))
}

// positive reads a duration that cannot be 0.
func positive(text string) (duration, error) {
	d, err := parseAs[duration](text)
	if err == nil && d == 0 {
		err = fmt.Errorf("%s makes no sense here: want a positive duration, like 30s", text)
	}
	return d, err
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
	return text == "true", nil
}

func parseText(text string) (string, error) {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("%q is no name: want text in one line that is not empty", text)
	}
	return text, nil
}

// oneOf reads one of some words.
func oneOf(words ...string) func(string) (string, error) {
	return func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", fmt.Errorf("%q is not known here: want one of %s", text, strings.Join(words, ", "))
		}
		return text, nil
	}
}

// between reads a whole number within bounds.
func between(least, most int) func(string) (int, error) {
	return func(text string) (int, error) {
		v, err := strconv.Atoi(text)
		if err != nil || v < least || v > most {
			return 0, fmt.Errorf("%q is no number from %d to %d", text, least, most)
		}
		return v, nil
	}
}

// parsePointer reads a JSON pointer (RFC 6901, 3).
func parsePointer(text string) (string, error) {
	escaped := strings.NewReplacer("~0", "", "~1", "").Replace(text)
	if !strings.HasPrefix(text, "/") || strings.Contains(escaped, "~") {
		return "", fmt.Errorf("%q is no JSON pointer: want one like /order/id", text)
	}
	return text, nil
}

func parseHeader(text string) (string, error) {
	if text == "" || checkHeaderName("", text) != nil {
		return "", fmt.Errorf("%q is no name of a header: want one like X-Tenant", text)
	}
	return text, nil
}
