//go:build mutants

package mutants

// Faults of the core between the run of an operation and its end: lease, record, operators, drain.

var ownerMutants = []mutant{
	// The record.
	{
		fault: "a caller who hangs up takes the record along",
		seen:  "CR-8: caura-ai/caura#1629",
		file:  "lease.go",
		old:   `first.deaf, first.deadline = ctx, true,`,
		new:   `first.deaf, first.deadline = ctx, false,`,
		pkg:   core, test: "TestCallerHangsUp",
	},
	{
		fault: "an answer goes out before it is recorded",
		seen:  "go-idem-proxy",
		file:  "lease.go",
		old:   "\tif final, err := op.tryRecord(first, o, began); final {\n\t\treturn err\n\t}\n",
		new:   "\tgo op.tryRecord(context.WithoutCancel(ctx), o, began)\n\tif true {\n\t\treturn nil\n\t}\n",
		pkg:   core, test: "TestAnswerIsHeldBackUntilRecorded",
	},
	{
		fault: "recording is given up at the first error",
		seen:  "SO-7: aws-powertools/powertools-lambda-typescript#2944",
		file:  "lease.go",
		old:   "\t\tif final {\n\t\t\tsettled <- err\n\t\t}\n\t\treturn final\n",
		new:   "\t\tif final {\n\t\t\tsettled <- err\n\t\t}\n\t\treturn true\n",
		pkg:   core, test: "TestUnrecorded/within the lease",
	},
	{
		fault: "an operation that fails counts as nothing happened",
		seen:  "CR-7: aws-powertools/powertools-lambda-python#801",
		file:  "executor.go",
		old:   `return Outcome{Reason: "the operation returned an error"}`,
		new:   `return Outcome{State: Free}`,
		pkg:   core, test: "TestHowOperationsEnd/an error",
	},
	{
		fault: "an operation that panics counts as nothing happened",
		seen:  "CR-5: snok/asgi-idempotency-header#16",
		file:  "executor.go",
		old:   `Outcome{Reason: "the operation did not return"}`,
		new:   `Outcome{State: Free}`,
		pkg:   core, test: "TestHowOperationsEnd/a panic",
	},

	// The owner.
	{
		fault: "no heartbeat: an operation that outlasts its lease loses it",
		seen:  "TO-4: svix/svix-webhooks#638",
		file:  "lease.go",
		old:   `time.AfterFunc(h.every, op.beat)`,
		new:   `time.AfterFunc(24*time.Hour, op.beat)`,
		pkg:   core, test: "TestHeartbeatStopsAtMaxRun",
	},
	{
		fault: "a heartbeat behind the record brings the claim back to life",
		file:  "settle.go",
		old:   "\treturn ErrClaimLost\n}\n\nfunc (c *Claim) lock",
		new:   "\treturn nil\n}\n\nfunc (c *Claim) lock",
		pkg:   core, test: "TestExtensionAfterTheEnd/completed",
	},
	{
		fault: "a late owner whose outcome is held may not say how it ended",
		file:  "transition.go",
		old:   `{live, lapsedUnacted, lapsedHold, lapsedRerun, lapsedRecover, held, heldRecover}`,
		new:   `{live, lapsedUnacted, lapsedHold, lapsedRerun, lapsedRecover}`,
		pkg:   core, test: "TestLateOwner/a claim declared it over, then completed",
	},
	{
		fault: "a late owner writes over whoever took over",
		seen:  "traefik-idempotency-plugin",
		file:  "settle.go",
		old:   `rec.nonce != c.nonce || rep.Entry.epoch() != c.epoch`,
		new:   `false`,
		pkg:   core, test: "TestLateOwner/taken over, then completed",
	},
	{
		fault: "an owner is known by its epoch alone",
		file:  "settle.go",
		old:   `rec.nonce != c.nonce || rep.Entry.epoch() != c.epoch`,
		new:   `rep.Entry.epoch() != c.epoch`,
		pkg:   core, test: "TestAnothersEntryOfTheSameEpoch",
	},
	{
		fault: "an operation that asks late is not told that its claim is lost",
		file:  "bound.go",
		old:   `b.over, b.cause = true, cause`,
		new:   `b.over = true`,
		pkg:   core, test: "TestContextOfAnOperation/the claim is lost",
	},
	{
		fault: "what an operation is told of its end changes with what becomes of its caller",
		file:  "bound.go",
		old:   `if b.deaf || b.over {`,
		new:   `if b.deaf {`,
		pkg:   core, test: "TestBoundedContextEnds/it has ended, then its parent/nothing asked before/parent real",
	},
	{
		fault: "an operation is told its caller's cause for its own",
		file:  "bound.go",
		old:   "if b.real != nil {\n\t\tfrom = b.real",
		new:   "if b.real != nil && b.real.Err() == nil {\n\t\tfrom = b.real",
		pkg:   core, test: "TestContextOfAnOperation/the claim is lost",
	},

	// Operators.
	{
		fault: "an operator's decision does not raise the epoch",
		file:  "operate.go",
		old:   `nextEpoch(e.Epoch, now), ed.to,`,
		new:   `e.Epoch, ed.to,`,
		pkg:   core, test: "TestOperatorsActs/unknown, happened, force false",
	},
	{
		fault: "an operator's decision leaves the nonce to the owner",
		file:  "operate.go",
		old:   `rec.nonce, rec.reason, rec.heard = NewRev(), "", 0`,
		new:   `rec.reason, rec.heard = "", 0`,
		pkg:   core, test: "TestOperatorsActs/unknown, happened, force false",
	},
	{
		fault: "a live claim is decided over without force",
		file:  "operate.go",
		old:   `ed == nil || ed.force && !force`,
		new:   `ed == nil`,
		pkg:   core, test: "TestOperatorsActs/live, forget, force false",
	},
	{
		fault: "an operator's act vanishes with the next release",
		file:  "settle.go",
		old:   `v == release && len(rec.history) == 0`,
		new:   `v == release`,
		pkg:   core, test: "TestFreedKey",
	},

	// Drain.
	{
		fault: "a drain lets new operations in",
		file:  "lease.go",
		old:   `if e.draining && !inside {`,
		new:   `if false && !inside {`,
		pkg:   core, test: "TestDrainRefusesWhatIsNew",
	},
	{
		fault: "a drain does not wait for a record",
		file:  "lease.go",
		old:   "\te.mu.Lock()\n\te.active++\n\te.mu.Unlock()\n\tgo func() {\n\t\tdefer e.leave()\n",
		new:   "\tgo func() {\n",
		pkg:   core, test: "TestDrainWaitsForTheRecord",
	},
}
