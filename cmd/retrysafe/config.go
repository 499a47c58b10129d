package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/gateway"
)

// A configFile is what --config names, read and understood. Its flags are those of the command line, which wins.
type configFile struct {
	name   string
	flags  map[string]flagText
	routes []routeConfig
}

// A flagText is a flag as the file says it.
type flagText struct {
	value any // as kong takes it: a string, or several
	at    position
	used  bool // neither the command line nor the environment says otherwise
}

// A configError is all that is wrong with a file, a line each.
type configError struct {
	file     string
	mistakes []mistake
}

func (e *configError) Error() string { return strings.Join(e.lines(), "; ") }

func (e *configError) lines() (lines []string) {
	for _, f := range e.mistakes {
		lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", e.file, f.at.line, f.at.column, oneLine(f.text)))
	}
	return lines
}

// err returns what was found, in the order of the file.
func (r *reader) err(file string) error {
	if len(r.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(r.mistakes, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.column, b.at.column))
	})
	return &configError{file, r.mistakes}
}

// maxConfig bounds the file.
const maxConfig = 1 << 20

// BeforeResolve reads the file that --config or the environment names, and lets it say what they leave open.
func (c *gatewayCmd) BeforeResolve(ctx *kong.Context) error {
	c.flags = map[string]*kong.Flag{}
	for _, flag := range ctx.Selected().Flags {
		c.flags[flag.Name] = flag
	}
	name, _ := ctx.FlagValue(c.flags["config"]).(string)
	if name == "" {
		return nil
	}
	b, err := readFile(name, maxConfig)
	if err != nil {
		return usage("--config: %v: want a file like the one in docs/operate.md", err)
	}
	c.file, err = parseConfig(name, string(b), c.flags)
	if err != nil {
		return err
	}
	ctx.AddResolver(kong.ResolverFunc(c.file.resolve))
	return nil
}

// resolve is kong's question after a flag that the command line does not give. The environment goes before the file.
func (f *configFile) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	text, ok := f.flags[flag.Name]
	if !ok || slices.ContainsFunc(flag.Tag.Envs, func(name string) bool { _, set := os.LookupEnv(name); return set }) {
		return nil, nil
	}
	text.used = true
	f.flags[flag.Name] = text
	return text.value, nil
}

// unfiled are flags that no file may give, with the reason.
var unfiled = map[string]string{
	"config":       "a file does not name another: leave it out",
	"check-config": "it belongs on the command line: leave it out",
	"json":         "it belongs on the command line: leave it out",
	"admin-token":  "a secret has no place in a file that many may read: put it into a file of its own, and name that with admin-token-file",
}

// parseConfig reads the text of a file whose flags are of these.
func parseConfig(name, text string, flags map[string]*kong.Flag) (*configFile, error) {
	r, f := &reader{}, &configFile{name: name, flags: map[string]flagText{}}
	root, wrong := parseYAML(text)
	if wrong != nil {
		r.mistakes = append(r.mistakes, *wrong)
		return nil, r.err(name)
	}
	known := keys{"routes": func(n node) { f.routes = r.routes(n) }}
	for key, flag := range flags {
		known[key] = func(n node) {
			if why := unfiled[key]; why != "" {
				r.wrong(n.at, "%s: %s", key, why)
				return
			}
			f.flags[key] = flagText{r.flag(n, flag), n.at, false}
		}
	}
	if root.kind != isNothing {
		r.mapping(root, "the file", known)
	}
	return f, r.err(name)
}

// flag reads what a flag is to be, as the command line would.
func (r *reader) flag(n node, flag *kong.Flag) any {
	if flag.IsSlice() {
		var list setting[[]string]
		several(r, &list, parseText)(n)
		values := make([]any, len(list.value))
		for i, v := range list.value {
			values[i] = v
		}
		return values
	}
	var one setting[string]
	scalar(r, &one, parseText)(n)
	if !one.given {
		return nil
	}
	if flag.IsBool() {
		scalar(r, &setting[bool]{}, parseBool)(n)
		return one.value
	}
	if flag.Enum != "" {
		scalar(r, &setting[string]{}, oneOf(flag.EnumSlice()...))(n)
	}
	scan := kong.Scan().PushTyped(one.value, kong.FlagValueToken)
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, reflect.New(flag.Target.Type()).Elem()); err != nil {
		r.wrong(n.at, "%v", err)
	}
	return one.value
}

func (r *reader) routes(n node) (routes []routeConfig) {
	if n.kind != isList {
		r.wrong(n.at, "routes is %s: want a list, each item beginning with - name: ...", n.kind)
		return nil
	}
	for _, item := range n.items {
		routes = append(routes, r.route(item))
	}
	return routes
}

// locate says where in the file stands what an error is about, if it stands there.
func (f *configFile) locate(err error) error {
	if f == nil || err == nil {
		return err
	}
	for word := range strings.FieldsSeq(err.Error()) {
		name, ok := strings.CutPrefix(strings.TrimSuffix(word, ":"), "--")
		if ok && f.flags[name].used {
			return &configError{f.name, []mistake{{f.flags[name].at, err.Error()}}}
		}
	}
	r := &reader{}
	for _, e := range routeErrors(err) {
		c := f.routes[e.Index]
		at := c.at
		switch e.Field {
		case "Path":
			at = c.path.at
		case "Name":
			at = c.name.at
		case "Methods":
			at = cmp.Or(c.matched.at, c.methods.at, c.at)
		case "Probe":
			at = cmp.Or(c.recover.at, c.at)
		case "ForwardKey":
			at = cmp.Or(c.forwardKey.at, c.at)
		}
		r.wrong(at, "%v", e.Err)
	}
	if found := r.err(f.name); found != nil {
		return found
	}
	return err
}

// routeErrors finds all errors of routes that err holds.
func routeErrors(err error) (found []*gateway.RouteError) {
	if e, ok := err.(*gateway.RouteError); ok {
		return []*gateway.RouteError{e}
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			found = append(found, routeErrors(e)...)
		}
		return found
	}
	if inner := errors.Unwrap(err); inner != nil {
		return routeErrors(inner)
	}
	return nil
}
