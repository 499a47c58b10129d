package idemhttp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// errAmbiguous says that a text is no JSON, or none that all readers read alike. What is wrong with it is told to nobody.
var errAmbiguous = errors.New("not one JSON value that all readers read alike")

// maxDepth bounds the nesting of a text, and with it the work: members that are out of order are copied once for each
// object around them.
const maxDepth = 64

// A canon writes JSON texts in one form: no space, strings with the fewest escapes, members sorted by their names as
// they are written then, each member and element followed by a comma. The form is for digests, no JSON.
type canon struct {
	src     bytes.Buffer // the text; a Decoder reads a bytes.Buffer in place, and writes nothing into it
	in      jsontext.Decoder
	out     []byte
	scratch []byte
	members []member // of the objects that are open, the innermost last
	picked  []span   // what each pointer led to
}

// A span is a part of canon.out. Where nothing was written to, it is empty.
type span struct{ from, to int }

// A member stands in canon.out from its name to its comma.
type member struct{ from, colon, to int }

var canons = sync.Pool{New: func() any { return new(canon) }}

// kept bounds what a canon keeps for the next text.
const kept = 1 << 20

func (c *canon) open(text []byte, options ...jsontext.Options) {
	c.src = *bytes.NewBuffer(text)
	c.in.Reset(&c.src, options...)
	c.out, c.members = c.out[:0], c.members[:0]
}

// close gives c back to the pool, without the text.
func (c *canon) close() {
	c.open(nil)
	if cap(c.out)+cap(c.scratch) <= kept && cap(c.members) <= kept/32 {
		canons.Put(c)
	}
}

// document returns the one form of text, without what the branches end at.
func (c *canon) document(text []byte, exclude *branch) ([]byte, error) {
	c.open(text, jsontext.AllowDuplicateNames(true)) // sorting finds them, at less cost than the Decoder
	if err := c.value(exclude); err != nil {
		return nil, err
	}
	return c.out, c.end()
}

// selection returns, of n pointers in order, what each leads to in text: 0 for nothing, or 1 and the one form of it.
func (c *canon) selection(text []byte, tree *branch, n int) ([]byte, error) {
	c.open(text)
	c.picked = append(c.picked[:0], make([]span, n)...)
	if err := c.pick(tree); err != nil {
		return nil, err
	}
	if len(c.out) == 0 {
		return nil, errAmbiguous
	}
	c.scratch = c.scratch[:0]
	for _, s := range c.picked {
		if s.from == s.to {
			c.scratch = append(c.scratch, 0)
			continue
		}
		c.scratch = appendPart(append(c.scratch, 1), c.out[s.from:s.to])
	}
	return c.scratch, c.end()
}

// end expects the end of the text.
func (c *canon) end() error {
	if _, err := c.in.ReadToken(); err != io.EOF {
		return errAmbiguous
	}
	return nil
}

// value writes the next value, without what the branches end at.
func (c *canon) value(exclude *branch) error {
	kind := c.in.PeekKind()
	switch {
	case kind != '{' && kind != '[':
		return c.scalar()
	case c.in.StackDepth() >= maxDepth:
		return errAmbiguous
	case kind == '{':
		return c.object(exclude)
	}
	return c.array(exclude)
}

// scalar writes a literal as it is, a string with the fewest escapes.
func (c *canon) scalar() error {
	v, err := c.in.ReadValue()
	if err != nil {
		return err
	}
	if v[0] != '"' || bytes.IndexByte(v, '\\') < 0 {
		c.out = append(c.out, v...)
		return nil
	}
	if c.scratch, err = jsontext.AppendUnquote(c.scratch[:0], v); err != nil {
		return err
	}
	c.out, err = jsontext.AppendQuote(c.out, c.scratch)
	return err
}

func (c *canon) array(exclude *branch) error {
	if err := c.delimiter(); err != nil {
		return err
	}
	for i := 0; c.in.PeekKind() != ']'; i++ {
		next := exclude.element(i)
		if next.ends() {
			if err := c.in.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := c.value(next); err != nil {
			return err
		}
		c.out = append(c.out, ',')
	}
	return c.delimiter()
}

func (c *canon) object(exclude *branch) error {
	if err := c.delimiter(); err != nil {
		return err
	}
	first, from := len(c.members), len(c.out)
	for c.in.PeekKind() != '}' {
		if err := c.member(exclude); err != nil {
			return err
		}
	}
	if err := c.sort(c.members[first:], from); err != nil {
		return err
	}
	c.members = c.members[:first]
	return c.delimiter()
}

// member writes the next member, or leaves it out.
func (c *canon) member(exclude *branch) error {
	m := member{from: len(c.out)}
	if err := c.scalar(); err != nil {
		return err
	}
	m.colon = len(c.out)
	next := exclude.member(c.out[m.from:])
	if next.ends() {
		c.out = c.out[:m.from]
		return c.in.SkipValue()
	}
	c.out = append(c.out, ':')
	if err := c.value(next); err != nil {
		return err
	}
	c.out = append(c.out, ',')
	m.to = len(c.out)
	c.members = append(c.members, m)
	return nil
}

// sort puts the members of an object, which stand from there to the end of c.out, in order.
func (c *canon) sort(members []member, from int) error {
	byName := func(a, b member) int { return bytes.Compare(c.out[a.from:a.colon], c.out[b.from:b.colon]) }
	if ascending(members, byName) {
		return nil
	}
	slices.SortFunc(members, byName)
	if !ascending(members, byName) {
		return errAmbiguous // a doubled name: readers take either
	}
	c.scratch = c.scratch[:0]
	for _, m := range members {
		c.scratch = append(c.scratch, c.out[m.from:m.to]...)
	}
	copy(c.out[from:], c.scratch)
	return nil
}

// ascending tells whether members are sorted and no two of them equal.
func ascending(members []member, compare func(a, b member) int) bool {
	for i := 1; i < len(members); i++ {
		if compare(members[i-1], members[i]) >= 0 {
			return false
		}
	}
	return true
}

// delimiter writes the bracket or brace that comes next.
func (c *canon) delimiter() error {
	t, err := c.in.ReadToken()
	if err != nil {
		return err
	}
	c.out = append(c.out, byte(t.Kind()))
	return nil
}

// pick writes the values that pointers lead to from the next value on, which none of them leads to itself.
func (c *canon) pick(b *branch) error {
	kind := c.in.PeekKind()
	if kind != '{' && kind != '[' {
		return c.in.SkipValue()
	}
	if _, err := c.in.ReadToken(); err != nil {
		return err
	}
	for i := 0; c.in.PeekKind() != '}' && c.in.PeekKind() != ']'; i++ {
		next := b.element(i)
		if kind == '{' {
			name, err := c.in.ReadValue()
			if err != nil {
				return err
			}
			next = b.member(name)
		}
		if err := c.follow(next); err != nil {
			return err
		}
	}
	_, err := c.in.ReadToken()
	return err
}

// follow picks the next value, which b leads to, or what it holds, or nothing.
func (c *canon) follow(b *branch) error {
	if b == nil {
		return c.in.SkipValue()
	}
	if b.end == 0 {
		return c.pick(b)
	}
	from := len(c.out)
	if err := c.value(nil); err != nil {
		return err
	}
	c.picked[b.end-1] = span{from, len(c.out)}
	return nil
}
