//go:build !unix

package main

// followHangups does nothing: this system has no SIGHUP.
func (s *server) followHangups(parsedAgain) (stop func()) { return func() {} }
