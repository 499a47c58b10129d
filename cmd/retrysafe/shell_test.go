package main

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// This file is as much of a shell and of curl as the documents use, so that their commands can be run as they
// stand there.

// A word is bare, quoted, or both in turn. What else a shell knows is not used in the documents.
var (
	wordAhead = regexp.MustCompile("^(?:[^\\s'\"\\\\`|&;<>()*?$]|\\$[A-Z_]+|'[^']*'|\"(?:[^\"\\\\`$]|\\$[A-Z_]+)*\")+(?:\\s|$)")
	wordParts = regexp.MustCompile(`'[^']*'|"[^"]*"|[^'"]+`)
	variable  = regexp.MustCompile(`\$[A-Z_]+`)
)

// words splits a command as a shell does: at blanks but for those in quotes, with variables in place.
func words(command string, variables map[string]string) (list []string, err error) {
	rest := strings.TrimSpace(strings.ReplaceAll(command, "\\\n", " "))
	for rest != "" {
		word := wordAhead.FindString(rest)
		if word == "" {
			return nil, fmt.Errorf("cannot read on at %q", rest)
		}
		rest = strings.TrimSpace(rest[len(word):])
		plain := wordParts.ReplaceAllStringFunc(strings.TrimSpace(word), func(part string) string {
			if inner, ok := strings.CutPrefix(part, "'"); ok {
				return strings.TrimSuffix(inner, "'")
			}
			return variable.ReplaceAllStringFunc(strings.Trim(part, `"`), func(name string) string {
				value, ok := variables[name[1:]]
				if !ok {
					err = fmt.Errorf("variable %s is not known here", name)
				}
				return value
			})
		})
		list = append(list, plain)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

func TestWords(t *testing.T) {
	tests := []struct {
		command string
		want    []string // nil: refused
	}{
		{"make demo", []string{"make", "demo"}},
		{"  a \\\n\t b ", []string{"a", "b"}},
		{`a 'b "c" $D' "e 'f'"`, []string{"a", `b "c" $D`, "e 'f'"}},
		{`a '' b"c"d`, []string{"a", "", "bcd"}},
		{`"$GATEWAY/charges" x$GATEWAY`, []string{"http://g/charges", "xhttp://g"}},
		{`"a?b=c&d"`, []string{"a?b=c&d"}},
		{"a $OTHER", nil}, {"a 'b", nil}, {"a | b", nil}, {"a && b", nil}, {"a > b", nil}, {"a `b`", nil}, {`a "b\"c"`, nil}, {"$(a)", nil},
	}
	for _, tt := range tests {
		got, err := words(tt.command, map[string]string{"GATEWAY": "http://g"})
		if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("words(%q): got %q, %v, want %q", tt.command, got, err, tt.want)
		}
	}
}

// A curl is what a curl command sends.
type curl struct {
	method, url, body string
	header            http.Header
}

// parseCurl reads the words of a curl command. It knows -X, -H and -d, and takes -i and -s for granted.
func parseCurl(args []string) (c curl, err error) {
	c.header = http.Header{}
	for i := 1; i < len(args); i++ {
		flags, ok := strings.CutPrefix(args[i], "-")
		if !ok {
			if c.url != "" {
				return c, fmt.Errorf("second URL %q", args[i])
			}
			c.url = args[i]
			continue
		}
		flag := strings.TrimLeft(flags, "is")
		if flag == "" && flags != "" {
			continue
		}
		if i++; i == len(args) {
			return c, fmt.Errorf("-%s has nothing behind it", flag)
		}
		if err := c.set(flag, args[i]); err != nil {
			return c, err
		}
	}
	if c.url == "" {
		return c, fmt.Errorf("no URL")
	}
	if c.method == "" && c.body == "" {
		c.method = http.MethodGet
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.body != "" && c.header["Content-Type"] == nil {
		c.header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return c, nil
}

func (c *curl) set(flag, value string) error {
	switch flag {
	case "X":
		c.method = value
	case "d":
		c.body = value
	case "H":
		name, text, ok := strings.Cut(value, ":")
		if !ok {
			return fmt.Errorf("header %q has no colon", value)
		}
		c.header.Add(name, strings.TrimSpace(text))
	default:
		return fmt.Errorf("flag -%s is not known here", flag)
	}
	return nil
}

func TestParseCurl(t *testing.T) {
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	tests := []struct {
		command string
		want    *curl // nil: refused
	}{
		{"curl http://a/b", &curl{"GET", "http://a/b", "", http.Header{}}},
		{"curl -si http://a -d x=1", &curl{"POST", "http://a", "x=1", form}},
		{"curl -i -s -X PUT http://a -H 'a-b: c: d' -H a-b:e -H 'content-type: text/plain' -d x", &curl{"PUT", "http://a", "x", http.Header{"A-B": {"c: d", "e"}, "Content-Type": {"text/plain"}}}},
		{"curl", nil}, {"curl http://a http://b", nil}, {"curl http://a -H", nil}, {"curl http://a -H b", nil}, {"curl http://a -u b", nil}, {"curl --data x http://a", nil}, {"curl - http://a", nil},
	}
	for _, tt := range tests {
		args, err := words(tt.command, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseCurl(args)
		if (err == nil) != (tt.want != nil) || tt.want != nil && !reflect.DeepEqual(got, *tt.want) {
			t.Errorf("%s: got %+v, %v, want %+v", tt.command, got, err, tt.want)
		}
	}
}
