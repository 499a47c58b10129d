//go:build mutants

package mutants

// Faults of what the core keeps: for how long, and whether it comes back as it was.

var recordMutants = []mutant{
	// Times.
	{
		fault: "retention counts from the claim",
		seen:  "TT-1: inngest/inngest#1760",
		file:  "settle.go",
		old:   `e.State, e.Due, e.TTL = o.State, rec.policy.Retention, rec.policy.memory()`,
		new:   `e.State, e.Due, e.TTL = o.State, rec.policy.Retention-time.Since(time.UnixMicro(rec.started)), rec.policy.memory()`,
		pkg:   core, test: "TestRetentionCountsFromTheEnd",
	},
	{
		fault: "a key is forgotten with its answer",
		seen:  "TT-7: crbnos/carbon#252",
		file:  "claim.go",
		old:   `max(p.Retention+p.Remember, time.Microsecond)`,
		new:   `max(p.Retention, time.Microsecond)`,
		pkg:   core, test: "TestThreeTimes/answer gone, key remembered, swept false",
	},
	{
		fault: "the sweeper drops the key with the answer",
		file:  "transition.go",
		old:   `verb: sweep, write: true, to: Tombstone`,
		new:   `verb: sweep, write: true, to: Absent`,
		pkg:   core, test: "TestSweep/done, retention over",
	},
	{
		fault: "an unknown outcome is swept like an answer",
		file:  "settle.go",
		old:   `e.State, e.Due, e.TTL = Unknown, 0, 0`,
		new:   `e.State, e.Due, e.TTL = Unknown, rec.policy.Retention, rec.policy.memory()`,
		pkg:   core, test: "TestThreeTimes/unknown is held for ever, swept false",
	},

	// The record's bytes.
	{
		fault: "a damaged record is believed",
		file:  "entry.go",
		old:   `binary.BigEndian.Uint32(b[1:]) != e.sum(b[5:])`,
		new:   `false`,
		pkg:   core, test: "TestRecordRefusesEveryChangedBit",
	},
	{
		fault: "a record is believed in another's entry",
		file:  "entry.go",
		old:   `return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, payload)`,
		new:   `return crc32.Checksum(payload, castagnoli)`,
		pkg:   core, test: "TestRecordBindsItsEntry",
	},
	{
		fault: "an empty answer comes back as none",
		seen:  "SV-4: aws-powertools/powertools-lambda-python#8090",
		file:  "entry.go",
		old:   `if r.answer != nil {`,
		new:   `if len(r.answer) > 0 {`,
		pkg:   core, test: "TestAnswersComeBackExactly/empty",
	},

	// Typed answers.
	{
		fault: "an operation whose answer cannot be encoded runs again",
		seen:  "RC-13: ikyriak/IdempotentAPI",
		file:  "codec.go",
		old:   `return Outcome{State: Completed, NotKept: true}`,
		new:   `return Outcome{State: Free}`,
		pkg:   core, test: "TestValuesThatCannotBeKept/infinity",
	},
	{
		fault: "an answer of another version is read as this one",
		file:  "codec.go",
		old:   `binary.BigEndian.Uint64(b[1:]) != c.version`,
		new:   `false`,
		pkg:   core, test: "TestRetryByALaterProgram",
	},
	{
		fault: "a damaged answer is decoded",
		file:  "codec.go",
		old:   `binary.BigEndian.Uint32(b[9:]) != crc32.Checksum(b[head:], castagnoli)`,
		new:   `crc32.Checksum(b[head:], castagnoli) != crc32.Checksum(b[head:], castagnoli)`,
		pkg:   core, test: "TestDamagedAnswer",
	},

	// The sweeper.
	{
		fault: "a sweep does not give way to operations",
		file:  "run.go",
		old:   `busy := e.active > 0`,
		new:   `busy := e.active < 0`,
		pkg:   core, test: "TestSweepGivesWay",
	},
	{
		fault: "a sweep writes all that is due at once",
		file:  "run.go",
		old:   `slices.Chunk(page.Entries, sweepers)`,
		new:   `slices.Chunk(page.Entries, len(page.Entries)+1)`,
		pkg:   core, test: "TestSweepWritesFewAtOnce",
	},
	{
		fault: "a store that ends leaves those who wait for it waiting",
		file:  "internal/wake/wake.go",
		old:   "\ts.closed = true\n",
		new:   "",
		pkg:   "internal/wake", test: "TestClose",
	},
}
