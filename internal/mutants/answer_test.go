//go:build mutants

package mutants

// Faults of the HTTP door on the way out: what an answer means, what is kept of it, what a retry is told.

var answerMutants = []mutant{
	// What an answer means.
	{
		fault: "a 504 counts as nothing happened",
		file:  "idemhttp/outcome.go",
		old:   "if status >= 500 {\n\t\treturn retrysafe.UnknownAnswered",
		new:   "if status >= 500 {\n\t\treturn retrysafe.Free",
		pkg:   door, test: "TestEveryStatus/504, Retry-After false",
	},
	{
		fault: "a 408 counts as nothing happened",
		file:  "idemhttp/outcome.go",
		old:   "case http.StatusRequestTimeout:\n\t\treturn retrysafe.UnknownAnswered",
		new:   "case http.StatusRequestTimeout:\n\t\treturn retrysafe.Free",
		pkg:   door, test: "TestEveryStatus/408, Retry-After false",
	},
	{
		fault: "a 503 that says when to come again is kept",
		seen:  "OU-1: codatio/codat-docs#1842",
		file:  "idemhttp/outcome.go",
		old:   `if h.Get("Retry-After") != "" {`,
		new:   `if false {`,
		pkg:   door, test: "TestEveryStatus/503, Retry-After true",
	},
	{
		fault: "a 429 is kept for ever",
		seen:  "OU-1: adcontextprotocol/adcp#4547",
		file:  "idemhttp/outcome.go",
		old:   `http.StatusTooEarly, http.StatusTooManyRequests:`,
		new:   `http.StatusTooEarly:`,
		pkg:   door, test: "TestEveryStatus/429, Retry-After false",
	},
	{
		fault: "a handler that panics has done nothing",
		seen:  "CR-5: snok/asgi-idempotency-header#16",
		file:  "idemhttp/call.go",
		old:   `out = retrysafe.Outcome{Reason: "the handler panicked"}`,
		new:   `out = retrysafe.Outcome{State: retrysafe.Free}`,
		pkg:   door, test: "TestSituations/handler panicked",
	},
	{
		fault: "the handler stops when its caller hangs up",
		seen:  "CR-8: fullstackhero/dotnet-starter-kit#1333",
		file:  "idemhttp/middleware.go",
		old:   `Detached: true}`,
		new:   `Detached: false}`,
		pkg:   door, test: "TestHangUpWhileTheHandlerRuns/reset",
	},

	// What is kept.
	{
		fault: "a 103 is taken for the answer",
		file:  "idemhttp/recorder.go",
		old: `	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		if rec.status == 0 && rec.call.r.ProtoAtLeast(1, 1) { // RFC 9110, 15.2
			rec.w.WriteHeader(status)
		}
	case rec.status == 0:
		if status < 200 || status > 999 {`,
		new: `	case rec.status == 0:
		if status < 100 || status > 999 {`,
		pkg: door, test: "TestAnswerIsTheHandlersOwn/RC-17 103 before the answer",
	},
	{
		fault: "an answer that is too large is not recorded, and runs again",
		seen:  "RC-8: gofiber/fiber#4287",
		file:  "idemhttp/recorder.go",
		old:   `out := rec.outcomeOf(nil, true)`,
		new:   `out := retrysafe.Outcome{State: retrysafe.Free}`,
		pkg:   door, test: "TestAnswerOverTheLimit/one more",
	},
	{
		fault: "an answer that is too large is cut and kept as whole",
		file:  "idemhttp/recorder.go",
		old:   "> rec.limit {\n\t\trec.stream()",
		new:   "> rec.limit {\n\t\tp = p[:rec.limit-int64(len(rec.body))]",
		pkg:   door, test: "TestAnswerOverTheLimit/one more",
	},
	{
		fault: "an answer shorter than its length is kept as whole",
		file:  "idemhttp/recorder.go",
		old:   `if rec.short() && !rec.streaming {`,
		new:   `if false {`,
		pkg:   door, test: "TestAnswerShorterThanDeclared",
	},
	{
		fault: "a cookie is replayed",
		seen:  "HR-2: granit-fx/granit-dotnet#1151",
		file:  "idemhttp/recorder.go",
		old:   `"Cache-Control", "Vary"}`,
		new:   `"Cache-Control", "Vary", "Set-Cookie"}`,
		pkg:   door, test: "TestExchangeHeadersAreNotKept/Set-Cookie",
	},
	{
		fault: "a hop-by-hop header is replayed",
		file:  "idemhttp/keep.go",
		old:   `answer.Named(h["Connection"], name) || `,
		new:   ``,
		pkg:   door, test: "TestHeadersNamedByConnectionAreNotKept",
	},
	{
		fault: "what outer layers said of the first answer is replayed",
		seen:  "HR-8: remix-run/remix#11635",
		file:  "idemhttp/keep.go",
		old:   `slices.Equal(lines, outer[name])`,
		new:   `slices.Equal(lines, nil)`,
		pkg:   door, test: "TestCompressionOutside",
	},

	// What a retry is told.
	{
		fault: "a replay does not say that it is one",
		seen:  "HR-5: ikyriak/IdempotentAPI#85",
		file:  "idemhttp/replay.go",
		old:   "\th.Set(replayedHeader, \"true\")\n",
		new:   "",
		pkg:   door, test: "TestSituations/again, answer kept",
	},
	{
		fault: "a replay may be kept by caches",
		file:  "idemhttp/replay.go",
		old:   "\t\th.Set(\"Cache-Control\", \"no-store\")\n",
		new:   "",
		pkg:   door, test: "TestAnswerIsTheHandlersOwn/nothing at all",
	},
	{
		fault: "a replayed failure looks like an answer",
		file:  "idemhttp/replay.go",
		old:   "\t\th.Add(statusHeader, statusUnknown)\n",
		new:   "",
		pkg:   door, test: "TestSituations/handler or upstream answered 5xx (a whole answer; not 503 with Retry-After, which releases)",
	},
	{
		fault: "of several lines of a header one is replayed",
		seen:  "RC-11: fossasia/eventyay#1605",
		file:  "idemhttp/replay.go",
		old:   "\tcase further:\n\t\th[l.name] = append(h[l.name], l.value)\n",
		new:   "",
		pkg:   door, test: "TestEveryLineOfAHeaderIsReplayed/Content-Language",
	},
	{
		fault: "a caller is told to come again in no time",
		file:  "internal/problem/problem.go",
		old:   `strconv.FormatInt(Seconds(a.RetryAfter), 10)`,
		new:   `strconv.FormatInt(0, 10)`,
		pkg:   door, test: "TestSituations/in flight",
	},
	{
		fault: "a caller is told to come again long after the lease",
		seen:  "TT-5: xavierjohn/Trellis#695",
		file:  "idemhttp/refuse.go",
		old:   `min(max(r.Age, time.Second), max(r.Left, time.Second))`,
		new:   `max(r.Age, time.Second)`,
		pkg:   door, test: "TestSlowHandlerKeepsItsKey",
	},
}
