//go:build mutants

package mutants

// Faults of what keeps stored answers from those who read the store, or write it.

var sealMutants = []mutant{
	{
		fault: "an answer is kept in clear though there are keys",
		seen:  "TN-7: buildinternet/uploads#834",
		file:  "seal.go",
		old:   `if len(k) == 0 || r.answer == nil {`,
		new:   `if len(k) >= 0 || r.answer == nil {`,
		pkg:   core, test: "TestAnswersAreSealedOnEveryPath/operation returns, sealed true",
	},
	{
		fault: "an operator's answer is kept in clear though there are keys",
		file:  "operate.go",
		old:   "\tex.answers.seal(&e, &rec)\n",
		new:   "\trec.sealed = false\n",
		pkg:   core, test: "TestAnswersAreSealedOnEveryPath/operator decides an unknown outcome, sealed true",
	},
	{
		fault: "a sealed answer opens in another's entry",
		file:  "seal.go",
		old:   `append(make([]byte, 0, len(e.ID)+8+1), e.ID[:]...)`,
		new:   `make([]byte, 0, len(e.ID)+8+1)`,
		pkg:   core, test: "TestSealBindsItsEntry/id",
	},
	{
		fault: "a sealed answer opens in a later life of its key",
		file:  "seal.go",
		old:   `uint64(e.epoch())`,
		new:   `0`,
		pkg:   core, test: "TestAnswerOfAnEarlierLife",
	},
	{
		fault: "a sealed failure opens as a success",
		file:  "seal.go",
		old:   `append(b, byte(e.State))`,
		new:   `append(b, byte(Completed))`,
		pkg:   core, test: "TestFailurePassedOffAsSuccess",
	},
	{
		fault: "an entry forgets that its answer is sealed",
		file:  "entry.go",
		old:   `flags |= flagSealed`,
		new:   `flags |= 0`,
		pkg:   core, test: "TestAnswersAreSealedOnEveryPath/operation returns, sealed true",
	},
	{
		fault: "an answer whose key is missing is taken for none",
		file:  "seal.go",
		old:   `return fmt.Errorf("%w: the answer of entry %.12s was sealed with answer key %x, which is not configured", ErrUnreadable, e.ID, id)`,
		new:   "r.answer, r.sealed = nil, false\n\t\treturn nil",
		pkg:   core, test: `TestAnswerKeyThatIsGone/replay, keys ["b"]`,
	},
	{
		fault: "a rotated answer key is forgotten at once",
		file:  "seal.go",
		old:   `slices.IndexFunc(k, func`,
		new:   `slices.IndexFunc(k[:min(1, len(k))], func`,
		pkg:   core, test: "TestAnswerKeys/rotation",
	},
	{
		fault: "an empty sealed answer comes back as none",
		seen:  "SV-4: aws-powertools/powertools-lambda-python#8090",
		file:  "seal.go",
		old:   `Open(make([]byte, 0, len(box)), nil,`,
		new:   `Open(nil, nil,`,
		pkg:   core, test: "TestSealedAnswerComesBack",
	},
	{
		fault: "rotation forgets the keys that were",
		file:  "cmd/retrysafe/keys.go",
		old:   `append(newKey(now), old...)`,
		new:   `append(newKey(now), old[:0]...)`,
		pkg:   "cmd/retrysafe", test: "TestRotationsAtOnce",
	},
}
