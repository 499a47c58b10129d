package history

import (
	"fmt"
	"strings"
)

// A Kind is what a violation breaks, in words.
type Kind string

// The kinds of violation.
const (
	TwoEffects          Kind = "two effects under one key"
	TwoAnswers          Kind = "two answers under one epoch"
	TwoClaims           Kind = "one epoch claimed twice"
	RanAgain            Kind = "claimed again while remembered"
	EpochOrder          Kind = "epochs do not grow in real time"
	Zombie              Kind = "an old epoch answered after a newer one"
	NoOwner             Kind = "no call can have claimed this epoch"
	NeverCompleted      Kind = "answer of an epoch that never completed"
	TooEarly            Kind = "told before it could be true"
	StaleBusy           Kind = "busy after the answer was told"
	BusyOutside         Kind = "busy while nobody held the key"
	FalseUnknown        Kind = "unknown while the outcome was known or the key was held"
	StaleReplay         Kind = "replayed after the answer had expired"
	EarlyLapse          Kind = "lapsed before its lease was over"
	EarlyExpiry         Kind = "expired before its retention was over"
	FalseMismatch       Kind = "mismatch although no other fingerprint stood"
	MissedMismatch      Kind = "answered although the fingerprint differs"
	FalseResolve        Kind = "resolved without force what was not unknown"
	EffectWithoutCall   Kind = "effect that no call can have made"
	AnswerWithoutEffect Kind = "answer told as completed without an effect"
	ReleasedYetActed    Kind = "released as not done although it took effect"
	BadTrail            Kind = "the trail breaks the transition table"
	BadRecord           Kind = "the record makes no sense"
)

// A Violation says what cannot have happened under one key.
type Violation struct {
	Key   string
	Kind  Kind
	Calls []int  // indexes into History.Calls, the witnesses
	Text  string // the witnesses in words
}

// String is one line.
func (v Violation) String() string { return fmt.Sprintf("key %q: %s: %s", v.Key, v.Kind, v.Text) }

// A ref points at the witness of a bound: a call, or past the calls an effect.
type ref int32

const nobody ref = -1

func (c *checker) call(r ref) *Call {
	if r == nobody || int(r) >= len(c.h.Calls) {
		return nil
	}
	return &c.h.Calls[r]
}

// witness describes what r points at.
func (c *checker) witness(r ref) string {
	if call := c.call(r); call != nil {
		return fmt.Sprintf("#%d %v", r, *call)
	}
	i := int(r) - len(c.h.Calls)
	return fmt.Sprintf("effect #%d of epoch %d at %d", i, c.h.Effects[i].Epoch, c.h.Effects[i].At)
}

// perKey bounds the violations told of one key: a broken layer breaks a hot key a million times.
const perKey = 16

// report notes a violation that the given witnesses show.
func (c *checker) report(k Kind, text string, witnesses ...ref) {
	if c.count++; c.count > perKey {
		return
	}
	v := Violation{Key: c.key, Kind: k, Text: text}
	var seen []string
	for _, w := range witnesses {
		if w != nobody {
			seen = append(seen, c.witness(w))
		}
		if c.call(w) != nil {
			v.Calls = append(v.Calls, int(w))
		}
	}
	v.Text = strings.TrimSpace(text + " " + strings.Join(seen, "; "))
	c.found = append(c.found, v)
}

// late names the violation that the earliest possible time of one witness lies after the end of another.
func (c *checker) late(low, high ref) Kind {
	l, h := c.call(low), c.call(high)
	same := c.epochOf(low) == c.epochOf(high)
	switch {
	case l == nil && same:
		return TooEarly
	case l == nil:
		return Zombie
	}
	switch l.Class {
	case Busy:
		return busyKind(h)
	case OutcomeUnknown:
		return FalseUnknown
	case Mismatch:
		return FalseMismatch
	case Replay, Expired:
		if same {
			return StaleReplay
		}
		return Zombie
	}
	switch {
	case same && h != nil && h.Class == Busy:
		return BusyOutside
	case same:
		return TooEarly
	}
	return EpochOrder
}

// busyKind tells a "busy" after the answer from a "busy" of an epoch that was gone, or not yet there.
func busyKind(other *Call) Kind {
	if other == nil {
		return BusyOutside
	}
	if answered(other.Recorded) || other.Class == Expired {
		return StaleBusy
	}
	return BusyOutside
}

// epochOf is the epoch that a witness speaks of; of a failed call it is 0, its own to be found out.
func (c *checker) epochOf(r ref) int64 {
	if call := c.call(r); call != nil {
		return call.Epoch
	}
	return c.h.Effects[int(r)-len(c.h.Calls)].Epoch
}
