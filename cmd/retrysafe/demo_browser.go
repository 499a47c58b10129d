package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// openBrowser opens a page for whoever sits there. That it cannot is no failure: the address is printed.
func openBrowser(ctx context.Context, out io.Writer, url string) {
	name := browserOpener(runtime.GOOS, os.Getenv, isTerminal(out))
	if name == "" {
		return
	}
	cmd := exec.CommandContext(ctx, name, url)
	if cmd.Start() == nil {
		go cmd.Wait() // or it stays as a zombie
	}
}

// browserOpener names the program that opens a page on this desktop, "" where there is none: without a terminal
// nobody may be there, and over SSH the desktop is another machine's.
func browserOpener(goos string, getenv func(string) string, terminal bool) string {
	switch {
	case !terminal || getenv("SSH_CONNECTION") != "":
		return ""
	case goos == "darwin":
		return "open"
	case getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != "":
		return "xdg-open"
	}
	return ""
}
