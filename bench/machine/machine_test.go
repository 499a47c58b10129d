package machine

import (
	"os"
	"regexp"
	"testing"
)

func TestDescriptionSaysProcessorSystemAndDisk(t *testing.T) {
	dir := t.TempDir()
	got, err := Describe(dir)
	if err != nil {
		t.Fatalf("Describe: %v", err)
	}
	if !regexp.MustCompile(`^\d+ cores of .+, \w+/\w+, .*go.*; a sync of 4 KiB takes \d+ \(\d+ to \d+\) us$`).MatchString(got) {
		t.Errorf("Describe = %q", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v; want nothing", left, err)
	}
}

func TestFolderThatDoesNotExistIsAnError(t *testing.T) {
	if got, err := Describe(t.TempDir() + "/none"); err == nil {
		t.Errorf("Describe = %q, want an error", got)
	}
}

func TestProcessorIsRead(t *testing.T) {
	tests := []struct{ name, info, want string }{
		{"two cores", "processor\t: 0\nmodel name\t: ACME X: 2 GHz\nprocessor\t: 1\nmodel name\t: other\n", "ACME X: 2 GHz"},
		{"none", "", "an unknown model"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := processor([]byte(tt.info)); got != tt.want {
				t.Errorf("processor = %q, want %q", got, tt.want)
			}
		})
	}
}
