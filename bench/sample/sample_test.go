package sample

import (
	"slices"
	"testing"
)

func TestMedianIsInTheMiddle(t *testing.T) {
	tests := []struct {
		name string
		s    Sample
		want float64
	}{
		{"nothing", nil, 0},
		{"one", Sample{7}, 7},
		{"odd, not in order", Sample{9, 1, 5}, 5},
		{"even", Sample{1, 9, 3, 5}, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.s)
			if got := tt.s.Median(); got != tt.want {
				t.Errorf("Median(%v) = %v, want %v", tt.s, got, tt.want)
			}
			if !slices.Equal(tt.s, before) {
				t.Errorf("Median left %v of %v: rounds belong together by their place", tt.s, before)
			}
		})
	}
}

func TestRatiosAreWithinARound(t *testing.T) {
	got := Sample{10, 90, 30}.Over(Sample{20, 100, 30})
	if want := (Sample{0.5, 0.9, 1}); !slices.Equal(got, want) {
		t.Errorf("Over = %v, want %v", got, want)
	}
	if got := (Sample{1, 2}).Over(Sample{4}); !slices.Equal(got, Sample{0.25}) {
		t.Errorf("Over of a round that has no base = %v, want it left out", got)
	}
}

func TestTextTellsTheSpread(t *testing.T) {
	if got, want := (Sample{3, 1, 2}).Text("%.1f"), "2.0 (1.0 to 3.0)"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	if got, want := Sample(nil).Text("%.0f"), "0 (0 to 0)"; got != want {
		t.Errorf("Text of nothing = %q, want %q", got, want)
	}
}
