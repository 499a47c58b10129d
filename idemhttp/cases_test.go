package idemhttp_test

// Which kinds of fault these tests know, and where. Test names and rows bear the name of the kind:
//
//	KP key parsing, FP fingerprint, CC concurrency, CR crash recovery, RC response capture, HR headers on replay,
//	OU outcomes, TT times, TN tenants, ST streaming, BE bodies, TO time-outs, SO store outage, GW gateway
//
// Not tested here, and why:
//
//	FP-1, FP-4, FP-5, FP-7, FP-17 in canonical mode, FP-13, FP-14 (parts of a body), FP-16 by parts, FP-22 decoded:
//	      there is one mode, raw bytes; these rows pin what raw mode says of them
//	FP-20 a mismatch does not say whether the first request is done: it tells nothing of it
//	CC-4, CC-8, CC-11, CC-17, CR-11: of the core, of its stores and of consumers; no HTTP in them
//	CC-10 no lock by key exists in this package
//	HR-5  expose headers for browsers, HR-7 retention in an answer: no such header is sent yet
//	RC-4  an answer without a body is a row of TestAnswerIsTheHandlersOwn; there is no hook to be skipped
//	RC-13 by values that cannot be encoded: the core's, for functions; here by headers that cannot be sent
//	OU-2  a policy by status: there is one table, TestEveryStatus
//	OU-4  there is one code path
//	TT-4  sweeping is the store's
//	TT-5  two clocks: the store's; here only that Retry-After stays within the lease
//	TN-7  sealed answers and TN-8 quotas: not there yet; a limiter behind the guard is played in TestSituations
//	TN-10 keys of the upstream's own: the gateway's, not there yet
//	ST-5  trailers are dropped; no test holds on to that
