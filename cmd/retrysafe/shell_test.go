package main

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// This file is as much of a shell and of curl as the documents use, so that their commands can be run as they
// stand there.

// words splits a command as a shell does: blanks, quotes, a backslash at the end of a line, and variables.
func words(command string, variables map[string]string) ([]string, error) {
	var list []string
	var word strings.Builder
	open, quote := false, rune(0)
	command = strings.ReplaceAll(command, "\\\n", " ")
	for i := 0; i < len(command); i++ {
		c := rune(command[i])
		switch {
		case quote == 0 && (c == ' ' || c == '\n' || c == '\t'):
			if open {
				list = append(list, word.String())
			}
			word.Reset()
			open = false
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case c == quote:
			quote = 0
		case c == '$' && quote != '\'':
			name := command[i+1:]
			name = name[:len(name)-len(strings.TrimLeft(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"))]
			value, ok := variables[name]
			if !ok {
				return nil, fmt.Errorf("variable $%s is not known here", name)
			}
			word.WriteString(value)
			i += len(name)
			open = true
		case quote != '\'' && strings.ContainsRune("\\`|&;<>()*?", c) && (quote == 0 || c == '\\' || c == '`'):
			return nil, fmt.Errorf("sign %q is not known here", c)
		default:
			word.WriteByte(command[i])
			open = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("quote %c is not closed", quote)
	}
	if open {
		list = append(list, word.String())
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
