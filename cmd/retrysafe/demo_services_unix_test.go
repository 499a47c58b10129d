//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scripts/test-services says at once that all is there, or what is missing and how to come by it.
func TestServicesScript(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(repository(t), "scripts", "test-services")
	with, without := t.TempDir(), t.TempDir() // folders of programs; neither has apt-get
	if err := os.WriteFile(filepath.Join(with, "google-chrome"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		path   string
		env    string
		args   []string
		status int
		says   string
	}{
		{"all is there", with, "", nil, 0, ""},
		{"the browser is there", with, "", []string{"chromium"}, 0, ""},
		{"no browser", without, "", nil, 1, "test-services: missing: chromium: install"},
		{"another browser", without, "RETRYSAFE_TEST_CHROMIUM=" + filepath.Join(with, "google-chrome"), nil, 0, ""},
		{"another browser that is missing", with, "RETRYSAFE_TEST_CHROMIUM=/nowhere", nil, 1, "test-services: RETRYSAFE_TEST_CHROMIUM names no program: /nowhere"},
		{"no such service", with, "", []string{"fax"}, 2, "test-services: fax: no such service: want chromium"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), bash, append([]string{script}, tt.args...)...)
			cmd.Env = []string{"PATH=" + tt.path, tt.env}
			out, _ := cmd.CombinedOutput() // the status says how it went
			if got := cmd.ProcessState.ExitCode(); got != tt.status || !strings.HasPrefix(string(out), tt.says) || tt.says == "" && len(out) > 0 {
				t.Errorf("got status %d and %q, want %d and %q", got, out, tt.status, tt.says)
			}
		})
	}
	if names := "for name in " + strings.Join(chromiumNames, " ") + ";"; !strings.Contains(read(t, repository(t), "scripts/test-services"), names) {
		t.Errorf("scripts/test-services does not look for the browsers that the tests look for: %q", names)
	}
}
