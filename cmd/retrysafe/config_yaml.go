package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	yamltoken "github.com/goccy/go-yaml/token"
)

// A position is a place in a file, both from 1.
type position struct{ line, column int }

// A mistake is what is wrong at a place, and what to do.
type mistake struct {
	at   position
	text string
}

// A node is a value of a YAML file: text, a list, a mapping, or nothing.
type node struct {
	at     position
	kind   nodeKind
	text   string
	items  []node
	fields []field
}

type nodeKind string

const (
	isNothing nodeKind = "nothing"
	isText    nodeKind = "a single value"
	isList    nodeKind = "a list"
	isMapping nodeKind = "a mapping"
)

// A field is a key of a mapping and its value. Keys may stand there twice.
type field struct {
	at    position
	key   string
	value node
}

// parseYAML reads a file of one document. Of YAML it takes mappings, lists and scalars, and every scalar as the text
// that stands there: what it means is for its reader to say.
func parseYAML(text string) (n node, f *mistake) {
	defer func() {
		if recover() != nil { // a file must not end a gateway that serves, whatever the parser makes of it
			f = &mistake{position{1, 1}, "the file cannot be read as YAML"}
		}
	}()
	tokens := lexer.Tokenize(text)
	if f := refuseTokens(tokens); f != nil {
		return n, f
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // our reader tells of every duplicate
	if err != nil {
		f := mistake{position{1, 1}, "the file is no valid YAML: "}
		if e, ok := errors.AsType[yaml.Error](err); ok {
			f.at = at(e.GetToken())
			return n, &mistake{f.at, f.text + e.GetMessage()}
		}
		return n, &mistake{f.at, f.text + "see to its indentation, quotes and brackets"}
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return node{at: position{1, 1}, kind: isNothing}, nil
	}
	return convert(file.Docs[0].Body)
}

func at(t *yamltoken.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// deepest bounds the brackets, and the hyphens of one line, that stand within each other: the parser calls itself
// for each, and a stack that overflows cannot be caught. longest bounds the words and signs of the file: the parser's
// time grows with their square, to about a second.
const (
	deepest = 16
	longest = 50_000
)

// refuseTokens finds what a configuration has no use for. Without aliases nothing expands, without tags nothing is
// what it does not look like.
func refuseTokens(tokens yamltoken.Tokens) *mistake {
	if len(tokens) > longest {
		return &mistake{at(tokens[longest]), fmt.Sprintf("the file is too long: want at most %d words and signs", longest)}
	}
	brackets, documents, hyphens, line := 0, 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case yamltoken.AnchorType, yamltoken.AliasType, yamltoken.MergeKeyType:
			return &mistake{at(t), "anchors, aliases and merge keys are not read: write out what is meant, or quote text that begins with & or *"}
		case yamltoken.TagType, yamltoken.DirectiveType:
			return &mistake{at(t), "tags and directives are not read: leave it out, or quote text that begins with ! or %"}
		case yamltoken.MappingKeyType:
			return &mistake{at(t), "keys behind a question mark are not read: write them as `key: value`"}
		case yamltoken.DocumentHeaderType:
			if documents++; documents > 1 {
				return &mistake{at(t), "the file holds more than one document: keep one"}
			}
		case yamltoken.MappingStartType, yamltoken.SequenceStartType:
			brackets++
		case yamltoken.MappingEndType, yamltoken.SequenceEndType:
			brackets--
		case yamltoken.SequenceEntryType:
			if now := at(t).line; now != line {
				hyphens, line = 0, now
			}
			hyphens++
		}
		if brackets > deepest || hyphens > deepest {
			return &mistake{at(t), "lists and mappings stand too deep within each other"}
		}
	}
	return nil
}

// convert makes a node of a part of the parser's tree.
func convert(from ast.Node) (n node, f *mistake) {
	n.at = at(from.GetToken())
	switch from := from.(type) {
	case *ast.MappingNode:
		n.kind = isMapping
		for _, v := range from.Values {
			if f := n.add(v); f != nil {
				return n, f
			}
		}
		if n.at = at(from.Start); !from.IsFlowStyle && len(n.fields) > 0 { // in block style it begins at its first colon
			n.at = n.fields[0].at
		}
		return n, nil
	case *ast.MappingValueNode:
		n.kind = isMapping
		return n, n.add(from)
	case *ast.SequenceNode:
		n.kind = isList
		for _, v := range from.Values {
			item, f := convert(v)
			if f != nil {
				return n, f
			}
			n.items = append(n.items, item)
		}
		return n, nil
	case *ast.NullNode:
		n.kind = isNothing
	case *ast.StringNode:
		n.kind, n.text = isText, from.Value
	case *ast.LiteralNode:
		n.kind, n.text = isText, from.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = isText, from.GetToken().Value
	default:
		return n, &mistake{n.at, fmt.Sprintf("a %s is not read here: want a value, a list or a mapping", strings.ToLower(from.Type().String()))}
	}
	return n, nil
}

func (n *node) add(v *ast.MappingValueNode) *mistake {
	key := v.Key.GetToken()
	value, f := convert(v.Value)
	if f != nil {
		return f
	}
	if value.kind == isNothing {
		value.at = at(key)
	}
	n.fields = append(n.fields, field{at(key), key.Value, value})
	return nil
}
