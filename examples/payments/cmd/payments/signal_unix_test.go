//go:build unix

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestSignalsStopTheProgram(t *testing.T) {
	bin := build(t)
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			p := start(t, bin, filepath.Join(t.TempDir(), "payments.db"))
			if _, err := postCharge(t.Context(), p.url, oneEuro); err != nil {
				t.Fatal(err)
			}
			http.DefaultClient.CloseIdleConnections()
			if err := p.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("after %v: %v, want status 0", signal, err)
			}
		})
	}
}
