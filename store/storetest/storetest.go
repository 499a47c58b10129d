// Package storetest is what a Store promises, as a suite that every adapter runs: each case is a sentence of
// [retrysafe.Store], [retrysafe.Waiter] or [retrysafe.Inspector], and its name says which.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) retrysafe.Store { return memstore.New(nil) }, nil)
//	}
//
// Every case runs twice: with every answer arriving, and with the first answer to every write lost, so that
// each write is sent again ([LoseAnswers]). [Bench] measures what the suite proves.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Options say what the suite may do with a store. Nil, and the zero value of each field, is the default.
type Options struct {
	// Peer opens once more what s keeps, as a second process would: the cases about concurrency then come
	// from both sides. A store that several processes share must set it. Defaults to s itself.
	Peer func(t *testing.T, s retrysafe.Store) retrysafe.Store

	// Reopen ends s without a clean close, as a crash at that moment would, and opens what is left. Calls of
	// s may be under way. A durable store must set it. Defaults to no case about crashes.
	Reopen func(t *testing.T, s retrysafe.Store) retrysafe.Store

	// StallSync keeps the writes of s from becoming durable until resume is called; nothing fails meanwhile.
	// A durable store that lives in the process must set it. Defaults to no case about stalled disks.
	StallSync func(t *testing.T, s retrysafe.Store) (resume func())

	Callers  int           // at once, at most; waiters are not counted. Defaults to all that a case has, up to Load
	Load     int           // writes of the longest cases; others scale with it. Defaults to 10,000
	MaxBody  int           // longest Body that the store keeps, in bytes. Defaults to 1 MiB
	Patience time.Duration // with one call, and with what must happen by itself. Defaults to 10 s
}

// caseTime is what one case may take, in Patience.
const caseTime = 12

func (o *Options) orDefaults() Options {
	var filled Options
	if o != nil {
		filled = *o
	}
	if filled.Load <= 0 {
		filled.Load = 10_000
	}
	if filled.Callers <= 0 {
		filled.Callers = filled.Load
	}
	if filled.MaxBody <= 0 {
		filled.MaxBody = 1 << 20
	}
	if filled.Patience <= 0 {
		filled.Patience = 10 * time.Second
	}
	return filled
}

// Run puts every case to stores that open returns: one for each case, and one to see what it can. All IDs,
// scopes and displays are random, but for the all-zero and the all-ones ID: a store may hold other entries, and
// keeps what a case leaves. No two runs at once on the same entries.
//
// Cases about an optional interface, a crash or a stalled disk run where the store and o offer it.
func Run(t *testing.T, open func(t *testing.T) retrysafe.Store, o *Options) {
	opts := o.orDefaults()
	sample := open(t)
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			for _, c := range cases {
				if !c.fits(sample, &opts) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), caseTime*opts.Patience)
					defer cancel()
					c.run(ctx, newTrial(t, open(t), m.wrap, opts))
				})
			}
		})
	}
}

// A mode is what lies between a case and the store.
type mode struct {
	name string
	wrap func(retrysafe.Store) retrysafe.Store
}

var modes = []mode{
	{"every answer arrives", func(s retrysafe.Store) retrysafe.Store { return s }},
	{"first answers are lost", LoseAnswers},
}

// A need is what a case asks of a store and its Options beyond the Store interface.
type need uint8

const (
	nothing need = iota
	lists        // an Inspector
	waits        // a Waiter
	crashes      // Options.Reopen
	stalls       // Options.StallSync
)

// A promise is one case: a sentence that a store keeps, or breaks.
type promise struct {
	name  string
	needs need
	run   func(context.Context, *trial)
}

func (p promise) fits(s retrysafe.Store, o *Options) (ok bool) {
	switch p.needs {
	case lists:
		_, ok = s.(retrysafe.Inspector)
	case waits:
		_, ok = s.(retrysafe.Waiter)
	case crashes:
		ok = o.Reopen != nil
	case stalls:
		ok = o.StallSync != nil
	default:
		ok = true
	}
	return ok
}

var cases = []promise{
	{"create writes where nothing stands", nothing, createWrites},
	{"create leaves what stands and returns it", nothing, createLeaves},
	{"create sent again is recognised", nothing, createAgain},
	{"create sent again after another's write is refused", nothing, createAgainLate},
	{"swap writes over the old Rev", nothing, swapWrites},
	{"swap leaves any other Rev and returns what stands", nothing, swapLeaves},
	{"swap sent again is recognised", nothing, swapAgain},
	{"swap sent again after another's write is refused", nothing, swapAgainLate},
	{"swap writes nothing where nothing stands", nothing, swapAbsent},
	{"delete removes the old Rev", nothing, deleteRemoves},
	{"delete leaves any other Rev and returns what stands", nothing, deleteLeaves},
	{"delete of what is absent is OK", nothing, deleteAbsent},
	{"delete sent again spares what was created since", nothing, deleteAgainLate},
	{"an entry that vanished between two calls is absent", nothing, vanished},
	{"a long random run agrees with a model", nothing, agreesWithModel},

	{"bodies come back byte for byte", nothing, bodiesComeBack},
	{"scopes come back byte for byte", nothing, scopesComeBack},
	{"displays come back byte for byte", nothing, displaysComeBack},
	{"states, numbers and times come back exactly", nothing, numbersComeBack},
	{"a refused caller is shown the whole entry", nothing, refusedWhole},
	{"IDs are told apart by every bit", nothing, idsAreApart},
	{"a caller may reuse its body", nothing, bodyIsReused},
	{"what a reader changes reaches nobody else", nothing, readerChanges},
	{"get returns what stands and leaves out the rest", nothing, getMany},

	{"stamps lie between the clock before and after", nothing, stampsLieBetween},
	{"stamps are whole microseconds", nothing, stampsAreWhole},
	{"a caller's stamp is ignored", nothing, callersStamp},
	{"stamps never run backwards for one ID", nothing, stampsNeverBack},
	{"a create is stamped later than what was deleted before it", nothing, stampedLater},
	{"no clock is behind a stamp that comes with it", nothing, clockNotBehind},
	{"the clock keeps pace with time", nothing, clockKeepsPace},

	{"of many creators one wins and all others see it", nothing, manyCreators},
	{"of many swaps and deletes of one Rev one takes place", nothing, manyEnders},
	{"many writers over few IDs lose nothing", nothing, manyWriters},
	{"readers see whole entries and never an older one again", nothing, wholeEntries},

	{"an ended context is an error", nothing, endedContext},
	{"a write cut off by its context is whole or absent and may be sent again", nothing, cutOffWrites},
	{"not written means not written", nothing, notWritten},

	{"what was acknowledged survives a crash", crashes, survivesCrash},
	{"nobody is told of a write before it is durable", stalls, hiddenUntilDurable},
	{"a stalled disk keeps nobody beyond its context", stalls, stalledContext},

	{"list pages hold at most the limit and miss nothing", lists, listLimits},
	{"list without a limit returns at most 100", lists, listDefaultLimit},
	{"list selects by state", lists, listStates},
	{"list selects by scope byte for byte", lists, listScopes},
	{"list selects by prefix of display byte for byte", lists, listPrefixes},
	{"list selects what is due", lists, listDue},
	{"list selects by all of a query at once", lists, listAll},
	{"list shows an entry as it was written last", lists, listSwapped},
	{"list with the zero query holds everything", lists, listZero},
	{"what neither comes nor goes is listed exactly once", lists, listOnce},
	{"a foreign cursor is an error", lists, foreignCursor},
	{"pages of large bodies miss nothing", lists, largeBodies},

	{"wait ends when the entry is swapped", waits, waitSwap},
	{"wait ends when the entry is deleted", waits, waitDelete},
	{"wait ends at once when the Rev differs already", waits, waitDiffers},
	{"wait ends with its context", waits, waitContext},
	{"wait on an untouched entry rarely ends by itself", waits, waitUntouched},
	{"wait misses no write that it races with", waits, waitRaces},
	{"one write wakes every waiter", waits, waitMany},
}
