package retrysafe

import (
	"errors"
	"fmt"
	"slices"
)

// What a caller may branch on. Answers are values; these are what stands in an answer's place.
var (
	// ErrInFlight says that another attempt holds the key now. Send the same key again later.
	ErrInFlight = errors.New("operation is in flight")
	// ErrMismatch says that the key was used for another operation. Never retry; use a new key for a new operation.
	ErrMismatch = errors.New("key was used for another operation")
	// ErrUnknownOutcome says that the operation may or may not have happened. It is held until somebody decides.
	ErrUnknownOutcome = errors.New("outcome of the operation is unknown")
	// ErrExpired says that the operation was done and its answer is no longer kept.
	ErrExpired = errors.New("operation was done; its answer is no longer kept")
	// ErrAnswerNotKept says that the operation was done and that its answer could not be kept.
	ErrAnswerNotKept = errors.New("operation was done; its answer was not kept")
	// ErrFailed says that the operation answered with a failure after which its outcome is unknown.
	ErrFailed = errors.New("operation failed; its outcome is unknown")
	// ErrClaimLost says that the claim was taken over, resolved or forgotten: its owner may write nothing more.
	ErrClaimLost = errors.New("claim lost")
	// ErrDidNothing, wrapped in an operation's error, says that nothing happened: the key is released.
	ErrDidNothing = errors.New("operation did nothing")
	// ErrUnrecorded says that the operation ran and that its outcome is not recorded yet.
	ErrUnrecorded = errors.New("operation ran; its outcome is not recorded yet")
	// ErrUnreadable says that the stored entry is damaged or of an unknown version. Nothing ran.
	ErrUnreadable = errors.New("stored entry is unreadable")
	// ErrStore says that the store did not answer. Nothing ran.
	ErrStore = errors.New("store is unavailable")
	// ErrNotWritten is wrapped by a Store that knows that its write did not and will not take place.
	ErrNotWritten = errors.New("nothing was written")
	// ErrDraining says that the Executor is shutting down. Nothing ran.
	ErrDraining = errors.New("shutting down")
	// ErrNotFound says that no entry stands under an ID.
	ErrNotFound = errors.New("no such key")
	// ErrInvalid says that a request to an operator's verb is incomplete or contradicts itself.
	ErrInvalid = errors.New("invalid request")
)

// An innerError is an operation's error on its way out of Do. An operation around it that passes it on does not
// say of itself that it did nothing.
type innerError struct{ error }

func (e innerError) Unwrap() error { return e.error }

func inner(err error) error {
	if err == nil || !errors.Is(err, ErrDidNothing) {
		return err
	}
	return innerError{err}
}

// didNothing tells whether err, not counting what came out of an inner operation, wraps ErrDidNothing.
func didNothing(err error) bool {
	switch e := err.(type) {
	case nil, innerError:
		return false
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), didNothing)
	case interface{ Unwrap() error }:
		return err == ErrDidNothing || didNothing(e.Unwrap())
	}
	return err == ErrDidNothing
}

// A RefusedError says that an operator's act is not allowed on what stands. Force says whether force would allow it.
type RefusedError struct {
	Act   string // "resolve" or "forget"
	State State
	Live  bool // the lease is running
	Force bool
}

// Error says why, and what would be allowed.
func (e *RefusedError) Error() string {
	what := e.State.String()
	if e.Live {
		what = "in_flight under a live lease"
	}
	if e.Force {
		return fmt.Sprintf("%s: key is %s: only with force", e.Act, what)
	}
	return fmt.Sprintf("%s: key is %s: nothing to %s", e.Act, what, e.Act)
}
