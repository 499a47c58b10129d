//go:build mutants

package mutants

// Faults of the demo: a page that shows something else than what happened, and a run that somebody else starts.

var demoMutants = []mutant{
	{
		fault: "a replay is told as an answer like any other",
		file:  "cmd/retrysafe/demo_trace.go",
		old:   `if h.Get("Idempotent-Replayed") == "true" {`,
		new:   `if false {`,
		pkg:   program, test: "TestStories/a lost answer, sent again with the key",
	},
	{
		fault: "a charge that nobody knows of counts as well done",
		file:  "cmd/retrysafe/demo.go",
		old:   "\t\tr.deceived++\n",
		new:   "",
		pkg:   program, test: "TestTally/charged, nobody knows",
	},
	{
		fault: "another site may start a run",
		file:  "cmd/retrysafe/demo_page.go",
		old:   "http.NewCrossOriginProtection().Handler(mux)",
		new:   "http.Handler(mux)",
		pkg:   program, test: "TestDemoPageRuns",
	},
	{
		fault: "the page takes any run for one that shows the point",
		file:  "cmd/retrysafe/demo_page.go",
		old:   "return judgeRows(rows, len(p.plan))",
		new:   "return nil",
		pkg:   program, test: "TestDemoPageSaysWhatFailed",
	},
}
