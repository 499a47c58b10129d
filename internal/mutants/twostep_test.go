//go:build mutants

package mutants

// Faults of two-step policies, and of what a recovery is told of the owner before.

var twoStepMutants = []mutant{
	{
		fault: "an operation acts before its mark is durable",
		file:  "step.go",
		old:   "\terr := op.claims.Act(ctx, op.claim)\n",
		new:   "\tvar err error\n\tgo op.claims.Act(ctx, op.claim)\n",
		pkg:   core, test: "TestActIsDurableWhenItReturns",
	},
	{
		fault: "a claim that had not acted is held",
		file:  "transition.go",
		old:   `if rec.policy.TwoStep && !rec.acted {`,
		new:   `if false {`,
		pkg:   core, test: "TestDeathBeforeAndAfterActing/hold, lease over",
	},
	{
		fault: "a claim that had acted is free",
		file:  "transition.go",
		old:   `if rec.policy.TwoStep && !rec.acted {`,
		new:   `if rec.policy.TwoStep {`,
		pkg:   core, test: "TestDeathBeforeAndAfterActing/hold, lease over, acted",
	},
	{
		fault: "an extension forgets that the operation acts",
		file:  "settle.go",
		old:   `return c.own(ctx, cl, extend, extended)`,
		new:   `return c.own(ctx, cl, extend, func(e Entry, rec record) Entry { rec.acted = false; return extended(e, rec) })`,
		pkg:   core, test: "TestActWhoseAnswerIsLost/one answer",
	},
	{
		fault: "an operation acts though its claim was taken over",
		file:  "step.go",
		old:   "\t\top.end(ErrClaimLost)\n",
		new:   "\t\treturn nil\n",
		pkg:   core, test: "TestActOfALateOwner/claimed again",
	},
	{
		fault: "an operation acts though its outcome is held as unknown",
		file:  "transition.go",
		old:   `{from: lapsed, verb: act, write: true, to: InFlight},`,
		new:   `{from: unsettled, verb: act, write: true, to: InFlight},`,
		pkg:   core, test: "TestActOfWhatIsHeld",
	},
	{
		fault: "who takes over a claim that had acted is free when it dies too",
		file:  "claim.go",
		old:   `acted: v != Won}`,
		new:   `acted: false}`,
		pkg:   core, test: "TestBornMarked",
	},
	{
		fault: "the sweeper frees a key and leaves it to its owner",
		file:  "run.go",
		old:   `before.Epoch, rec.nonce = nextEpoch(e.epoch(), now), NewRev()`,
		new:   `before.Epoch = e.epoch()`,
		pkg:   core, test: "TestActOfALateOwner/swept, and its history kept",
	},
	{
		fault: "a step is no effect of its operation",
		file:  "step.go",
		old:   `if err := Act(ctx); err != nil {`,
		new:   `if err := error(nil); err != nil {`,
		pkg:   core, test: "TestStepActs",
	},
	{
		fault: "a flag of a later release is read over",
		file:  "entry.go",
		old:   `flags&^flagsKnown != 0`,
		new:   `false`,
		pkg:   core, test: "TestRecordRefusesWhatItWouldNotWrite",
	},
	{
		fault: "a recovery that failed counts as a sign of life",
		file:  "settle.go",
		old:   `if cl.Verdict != Recovering {`,
		new:   `if true {`,
		pkg:   core, test: "TestQuietOf/recovery failed twice",
	},
	{
		fault: "a recovery is told only of the recovery before",
		file:  "claim.go",
		old:   `rec.heard = old.heardIn(before)`,
		new:   `rec.heard = before.Stamp.UnixMicro()`,
		pkg:   core, test: "TestQuietOf/whoever recovered died too",
	},
}
