//go:build mutants

package mutants

// Faults of the core before the operation runs: whose key it is, whose operation, and who may run it.

const core = "."

var claimMutants = []mutant{
	// Identity.
	{
		fault: "the scope is no part of the key",
		seen:  "TN-1: kortix-ai/suna#5267",
		file:  "key.go",
		old:   `appendPart(room[:0], k.Scope)`,
		new:   `appendPart(room[:0], "")`,
		pkg:   core, test: "TestIDs",
	},
	{
		fault: "scope and key run together",
		seen:  "SO-5: snok/asgi-idempotency-header",
		file:  "key.go",
		old:   `append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)`,
		new:   `append(b, s...)`,
		pkg:   core, test: "TestIDs",
	},
	{
		fault: "the parts of a fingerprint run together",
		file:  "fingerprint.go",
		old:   "\t\th.Write(size[:])\n",
		new:   "",
		pkg:   core, test: "TestFingerprintOf",
	},
	{
		fault: "all steps of an operation have one key",
		seen:  "CC-13: aws-powertools/powertools-lambda-typescript#5707",
		file:  "step.go",
		old:   `op.claim.key.derive(name)`,
		new:   `op.claim.key.derive("")`,
		pkg:   core, test: "TestDerivedKeys",
	},
	{
		fault: "a key is printed as it is",
		file:  "key.go",
		old:   `return "key " + k.ID().String()[:12]`,
		new:   `return "key " + k.Name`,
		pkg:   core, test: "TestKeyIsNotPrinted",
	},

	// Whose operation.
	{
		fault: "the fingerprint is compared only when nobody is on it",
		seen:  "CC-5: aws-powertools/powertools-lambda-typescript#5675",
		file:  "claim.go",
		old:   `if s.compared() {`,
		new:   `if s.compared() && s != live {`,
		pkg:   core, test: "TestRejectedDuplicateChangesNothing",
	},
	{
		fault: "a mismatch is swallowed where the outcome is unknown",
		file:  "claim.go",
		old:   `if s.compared() {`,
		new:   `if s.compared() && s != held && s != lapsedHold {`,
		pkg:   core, test: "TestMismatchOnEveryPath/unknown",
	},
	{
		fault: "a takeover does not compare the fingerprint",
		file:  "claim.go",
		old:   `if s.compared() {`,
		new:   `if s.compared() && s != lapsedRerun {`,
		pkg:   core, test: "TestMismatchOnEveryPath/lease over, rerun",
	},
	{
		fault: "a mismatch is swallowed where there is something to recover",
		file:  "claim.go",
		old:   `if s.compared() {`,
		new:   `if s.compared() && s != lapsedRecover && s != heldRecover {`,
		pkg:   core, test: "TestMismatchOnEveryPath/lease over, recover",
	},
	{
		fault: "an expired key is anybody's",
		file:  "claim.go",
		old:   `if s.compared() {`,
		new:   `if s.compared() && s != past {`,
		pkg:   core, test: "TestMismatchAfterRetention",
	},
	{
		fault: "the fingerprint is kept unsealed",
		seen:  "FP-19: MCPJam/inspector#4469",
		file:  "fingerprint.go",
		old:   "\tm.hash.Sum(m.out[:0])\n\treturn m.out",
		new:   "\tm.hash.Sum(m.out[:0])\n\treturn fp",
		pkg:   core, test: "TestStoredFingerprintTellsNothing",
	},
	{
		fault: "a rotated fingerprint key is forgotten at once",
		file:  "fingerprint.go",
		old:   "range s.keys {\n\t\tif k.id",
		new:   "range s.keys[:1] {\n\t\tif k.id",
		pkg:   core, test: "TestFingerprintKeys/rotation",
	},

	// Who may run it.
	{
		fault: "an operation runs when the store cannot be asked",
		seen:  "SO-1: Dev1822/paySphere#1919",
		file:  "executor.go",
		old:   "\tif err != nil {\n\t\treturn Result{}, err\n\t}\n\tif !c.Owned() {",
		new:   "\tif errors.Is(err, ErrStore) {\n\t\tout := op(ctx)\n\t\treturn Result{Verdict: Won, State: out.State, Answer: out.Answer}, nil\n\t}\n\tif err != nil {\n\t\treturn Result{}, err\n\t}\n\tif !c.Owned() {",
		pkg:   core, test: "TestStoreDown/opened true",
	},
	{
		fault: "a takeover writes over what came since its look",
		seen:  "CC-4: aws-powertools/powertools-lambda-typescript#5714",
		file:  "claim.go",
		old:   "\treturn c.store.Swap(ctx, over.Entry.Rev, e)",
		new:   "\trep, err := c.store.Swap(ctx, over.Entry.Rev, e)\n\tif err == nil && rep.Found && !rep.OK {\n\t\treturn c.store.Swap(ctx, rep.Entry.Rev, e)\n\t}\n\treturn rep, err",
		pkg:   core, test: "TestTakeoverFromAStaleLook",
	},
	{
		fault: "an expired lease is taken over whatever the policy says",
		seen:  "traefik-idempotency-plugin",
		file:  "transition.go",
		old:   `{from: []situation{lapsedHold}, verb: claim, write: true, to: Unknown, verdict: OutcomeUnknown}`,
		new:   `{from: []situation{lapsedHold}, verb: claim, write: true, to: InFlight, fence: true, verdict: TookOver}`,
		pkg:   core, test: "TestLeaseEnd/hold",
	},
	{
		fault: "the policy of whoever meets a claim decides, not the claim's",
		file:  "claim.go",
		old:   `meet(e, &rec, rep.Now)`,
		new:   `meet(e, &record{policy: r.Policy}, rep.Now)`,
		pkg:   core, test: "TestLeaseEnd/hold, whatever the retry's own policy",
	},
	{
		fault: "a lease holds for a moment longer than it lasts",
		file:  "transition.go",
		old:   `if age < e.Due && !e.Orphan {`,
		new:   `if age <= e.Due && !e.Orphan {`,
		pkg:   core, test: "TestMeet",
	},
	{
		fault: "a claim whose process is gone stands until its lease ends",
		seen:  "CR-1: aws-powertools/powertools-lambda-python#738",
		file:  "transition.go",
		old:   `if age < e.Due && !e.Orphan {`,
		new:   `if age < e.Due {`,
		pkg:   core, test: "TestOrphan/hold",
	},
	{
		fault: "an orphan that is put back is owned again",
		file:  "settle.go",
		old:   "\tif e.Orphan {\n\t\tage = max(age, e.Due)\n\t}\n",
		new:   "",
		pkg:   core, test: "TestOrphanPutBack",
	},
	{
		fault: "a lease ends by the process's clock",
		seen:  "TT-5: contember/contember#914",
		file:  "transition.go",
		old:   `age := now.Sub(e.Stamp)`,
		new:   `age := time.Since(e.Stamp)`,
		pkg:   core, test: "TestClockOfTheProcess",
	},
	{
		fault: "the store forgets a claim when its lease ends",
		seen:  "CC-11: granit-fx/granit-dotnet#1151",
		file:  "claim.go",
		old:   `Due: r.Policy.Lease}`,
		new:   `Due: r.Policy.Lease, TTL: r.Policy.Lease}`,
		pkg:   core, test: "TestLeaseEnd/hold",
	},
	{
		fault: "an epoch may repeat when the clock is set back",
		file:  "transition.go",
		old:   `max(before+1, now.UnixMicro())`,
		new:   `now.UnixMicro()`,
		pkg:   core, test: "TestNextEpoch",
	},
	{
		fault: "an entry that cannot be read is taken for absent",
		seen:  "traefik-idempotency-plugin",
		file:  "claim.go",
		old:   "\tif err != nil {\n\t\treturn step{}, err\n\t}\n\tif rec.nonce",
		new:   "\tif err != nil {\n\t\treturn step{verdict: Won, write: true, next: c.claimed(id, r, nonce, Won, e, &record{}, rep.Now)}, nil\n\t}\n\tif rec.nonce",
		pkg:   core, test: "TestUnreadableEntry/later version",
	},
	{
		fault: "a recovery that fails counts as nothing happened",
		file:  "executor.go",
		old:   `return Outcome{Reason: "recovery failed"}`,
		new:   `return Outcome{State: Free}`,
		pkg:   core, test: "TestLeaseEnd/recover, the question fails",
	},

	// Claims that are not answered.
	{
		fault: "a claim that was never answered stands until its lease ends",
		seen:  "redis/go-redis#2985",
		file:  "executor.go",
		old:   `e.takeBack(claims, lost)`,
		new:   `_ = lost`,
		pkg:   core, test: "TestClaimNeverAnswered/every answer is lost",
	},
	{
		fault: "a takeover that was never answered is deleted with what it took over",
		file:  "settle.go",
		old:   `rebased(*l.before, old, now), false)`,
		new:   `rebased(*l.before, old, now), true)`,
		pkg:   core, test: "TestLostTakeoverIsSwappedBack/over a lapsed claim",
	},
	{
		fault: "a claim is taken back from whoever stands there",
		seen:  "CC-5: aws-powertools/powertools-lambda-typescript#5675",
		file:  "settle.go",
		old:   `rec.nonce != l.nonce || e.State`,
		new:   `rec.nonce == (Rev{}) || e.State`,
		pkg:   core, test: "TestTakeBackTouchesOnlyItsOwn/another attempt claims",
	},
	{
		fault: "a claim whose second try was refused counts as not written",
		file:  "claim.go",
		old:   `cmp.Or(open, err)`,
		new:   `cmp.Or(err, open)`,
		pkg:   core, test: "TestClaimRefusedAfterItsAnswerWasLost",
	},
	{
		fault: "a claim does not know itself again when the sweeper was faster",
		file:  "claim.go",
		old:   `rec.nonce == nonce && (`,
		new:   `false && (`,
		pkg:   core, test: "TestClaimAnsweredAfterItsLease",
	},

	// Waiters.
	{
		fault: "a waiter that gives up removes the owner's claim",
		seen:  "CC-7: arun0009/idempotent",
		file:  "executor.go",
		old:   "\t\tif !ok {\n\t\t\tbreak",
		new:   "\t\tif !ok {\n\t\t\te.store.Delete(context.WithoutCancel(ctx), c.id, c.entry.Rev)\n\t\t\tbreak",
		pkg:   core, test: "TestWaiterLosesPatience/store that tells",
	},
	{
		fault: "every waiter looks for itself",
		file:  "wait.go",
		old:   `if wt == nil {`,
		new:   `if true {`,
		pkg:   core, test: "TestAThousandWaiters/store that tells",
	},
}
