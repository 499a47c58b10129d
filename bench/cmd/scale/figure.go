package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/retrysafe/retrysafe/bench/sample"
)

// A figure is one line of the table.
type figure struct {
	Name   string        `json:"name"`
	Unit   string        `json:"unit"`
	Values sample.Sample `json:"values"` // round by round
	Goal   string        `json:"goal,omitempty"`
	How    string        `json:"how"` // it was taken
}

// found adds a figure.
func (s *scale) found(name, unit, goal string, values sample.Sample, how string, args ...any) {
	f := figure{Name: name, Unit: unit, Values: values, Goal: goal, How: fmt.Sprintf(how, args...)}
	s.figures = append(s.figures, f)
	s.tell("%s: %s %s", f.Name, f.text(), f.Unit)
}

// text is the median, with the spread behind it where there is one. Small values need their fractions.
func (f figure) text() string {
	format := "%.0f"
	if f.Values.Median() < 10 {
		format = "%.2f"
	}
	if len(f.Values) == 1 {
		return fmt.Sprintf(format, f.Values[0])
	}
	return f.Values.Text(format)
}

func printTable(w io.Writer, figures []figure) error {
	var b strings.Builder
	b.WriteString("| | median (least to most) | | goal | how it was taken |\n|---|---|---|---|---|\n")
	for _, f := range figures {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.Name, f.text(), f.Unit, f.Goal, f.How)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printJSON(w io.Writer, figures []figure) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(figures)
}
