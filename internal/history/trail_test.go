package history

import "testing"

// row is a row by the claim of its epoch: the nonce follows from the epoch.
func row(epoch int64, from, to State) Transition {
	return Transition{Epoch: epoch, Nonce: uint64(100 + epoch), From: from, To: to}
}

func named(nonce uint64, c Call) Call { c.Nonce = nonce; return c }

func TestTrail(t *testing.T) {
	claimed, completed := row(5, Free, InFlight), row(5, InFlight, Completed)
	done := fresh(5, 0, 10, Completed)
	judge(t, audited([]story{
		{name: "claimed, completed", calls: []Call{done}, trail: []Transition{claimed, completed}},
		{name: "extended", calls: []Call{done}, trail: []Transition{claimed, row(5, InFlight, InFlight), completed}},
		{name: "late", calls: []Call{done}, trail: []Transition{claimed, row(5, InFlight, Unknown), row(5, Unknown, Completed)}},
		{name: "no row at all", calls: []Call{done}, want: BadTrail},
		{name: "told as recorded, never written", calls: []Call{done}, trail: []Transition{claimed}, want: BadTrail},
		{name: "written as a 5xx", calls: []Call{done}, trail: []Transition{claimed, row(5, InFlight, UnknownAnswered)}, want: BadTrail},
		{name: "a row is missing between", calls: []Call{done}, trail: []Transition{claimed, row(5, Unknown, Completed)}, want: BadTrail},
		{name: "completed twice", calls: []Call{done}, trail: []Transition{claimed, completed, row(5, Completed, Completed)}, want: BadTrail},
		{name: "begins as completed", calls: []Call{done}, trail: []Transition{row(5, Free, Completed)}, want: BadTrail},
		{name: "written by another claim", calls: []Call{done}, trail: []Transition{claimed, {Epoch: 5, Nonce: 9, From: InFlight, To: Completed}}, want: BadTrail},
		{name: "claimed without a nonce", calls: []Call{done}, trail: []Transition{{Epoch: 5, From: Free, To: InFlight}, {Epoch: 5, From: InFlight, To: Completed}}, want: BadTrail},
		{name: "the caller's nonce", calls: []Call{named(105, done)}, trail: []Transition{claimed, completed}},
		{name: "not the caller's nonce", calls: []Call{named(106, done)}, trail: []Transition{claimed, completed}, want: BadTrail},
		{name: "swept", calls: []Call{done}, trail: []Transition{claimed, completed, row(5, Completed, Tombstone)}},
		{name: "left unknown, yet settled", calls: []Call{fresh(5, 0, 10, Unknown)}, trail: []Transition{claimed, row(5, InFlight, Unknown), row(5, Unknown, Free)}, want: BadTrail},
	}))
}

func TestTrailResolvesFailedCalls(t *testing.T) {
	claimed, released := row(5, Free, InFlight), row(5, InFlight, Free)
	run := fresh(6, 20, 30, Completed)
	rerun := []Transition{row(6, Free, InFlight), row(6, InFlight, Completed)}
	judge(t, audited([]story{
		{name: "it released", calls: []Call{named(105, failed(0)), run}, trail: append([]Transition{claimed, released}, rerun...)},
		{name: "it did not release", calls: []Call{named(105, failed(0)), told(Busy, 5, 1, 2), run}, trail: append([]Transition{claimed}, rerun...), want: BadTrail},
		{name: "it never claimed", calls: []Call{named(104, failed(0)), told(Busy, 5, 1, 2)}, trail: []Transition{claimed}, want: NoOwner},
		{name: "it claimed, but began too late", calls: []Call{named(105, failed(3)), told(Busy, 5, 1, 2)}, trail: []Transition{claimed}, want: EpochOrder},
		{name: "it never completed", calls: []Call{named(105, failed(0)), replay(5, 11, 12)}, trail: []Transition{claimed}, want: NeverCompleted},
		{name: "it was never held", calls: []Call{named(105, failed(0)), told(OutcomeUnknown, 5, 11, 12)}, trail: []Transition{claimed}, want: FalseUnknown},
		{name: "it completed without an effect", rules: Rules{Ledger: true}, calls: []Call{named(105, failed(0))}, trail: []Transition{claimed, row(5, InFlight, Completed)}, want: AnswerWithoutEffect},
		{name: "a nameless one claimed", calls: []Call{failed(0), told(Busy, 5, 1, 2)}, trail: []Transition{claimed}},
		{name: "nobody claimed", trail: []Transition{claimed}, want: NoOwner},
	}))
}

func TestTrailOfEpochs(t *testing.T) {
	held := []Transition{row(5, Free, InFlight), row(5, InFlight, Unknown)}
	answered := []Transition{row(5, Free, InFlight), row(5, InFlight, Completed)}
	left := fresh(5, 0, 10, Unknown)
	judge(t, audited([]story{
		{name: "resolved", calls: []Call{left, resolved(6, 5, 11, 12, Free)}, trail: append(held, row(6, Unknown, Free))},
		{name: "resolved by someone who was not recorded", calls: []Call{left, replay(6, 11, 12)}, trail: append(held, row(6, Unknown, Completed))},
		{name: "resolved otherwise than told", calls: []Call{left, resolved(6, 5, 11, 12, Free)}, trail: append(held, row(6, Unknown, Completed)), want: BadTrail},
		{name: "resolved while in flight", calls: []Call{named(105, failed(0)), resolved(6, 5, 11, 12, Free)}, trail: []Transition{
			row(5, Free, InFlight), row(6, InFlight, Free)}, want: BadTrail},
		{name: "a run written as an act", calls: []Call{left, fresh(6, 11, 12, Completed)}, trail: append(held, row(6, Unknown, Completed)), want: BadTrail},
		{name: "an act written as a claim", calls: []Call{fresh(5, 0, 10, Free), forced(resolved(6, 5, 11, 12, Free))}, trail: []Transition{
			row(5, Free, InFlight), row(5, InFlight, Free), row(6, Free, InFlight)}, want: BadTrail},
		{name: "an act changed afterwards", calls: []Call{left, resolved(6, 5, 11, 12, Free)}, trail: append(held, row(6, Unknown, Free), row(6, Free, InFlight)), want: BadTrail},
		{name: "released under an old epoch", calls: []Call{fresh(5, 0, 10, Free), fresh(6, 0, 20, Completed)}, trail: []Transition{
			row(5, Free, InFlight), row(6, InFlight, InFlight), row(6, InFlight, Completed), row(5, InFlight, Free)}, want: BadTrail},
		{name: "claimed over a live claim", calls: []Call{fresh(5, 0, 10, InFlight), fresh(6, 0, 20, Completed)}, trail: []Transition{
			row(5, Free, InFlight), row(6, InFlight, InFlight), row(6, InFlight, Completed)}, want: BadTrail},
		{name: "claimed after the memory", rules: Rules{Retention: 5, Memory: 5}, calls: []Call{fresh(5, 0, 10, Completed), fresh(60, 20, 30, Free)},
			trail: append(answered, row(60, Tombstone, InFlight), row(60, InFlight, Free))},
		{name: "swept, then claimed", rules: Rules{Retention: 5, Memory: 5}, calls: []Call{fresh(5, 0, 10, Completed), fresh(60, 20, 30, Free)},
			trail: append(answered, row(5, Completed, Tombstone), row(5, Tombstone, Free), row(60, Free, InFlight), row(60, InFlight, Free))},
	}))
}

// audited says of every story that its trail is complete.
func audited(stories []story) []story {
	for i := range stories {
		stories[i].rules.Audit = true
	}
	return stories
}

func TestAnUnauditedTrailIsNotRead(t *testing.T) {
	judge(t, []story{{name: "nonsense", calls: []Call{fresh(5, 0, 10, Completed)}, trail: []Transition{row(5, Unknown, InFlight)}}})
}
