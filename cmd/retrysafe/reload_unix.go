//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// followHangups reloads the configuration at every SIGHUP until the returned function is called. Signals that come
// while it reloads are one.
func (s *server) followHangups(again parsedAgain) (stop func()) {
	hangups, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for range hangups {
			s.reload(again)
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-ended
	}
}
