// Package retrysafe makes retries safe: an operation sent with one key takes effect at most once, and
// every retry gets the answer of the first.
//
//	request  ->  key  ->  claim  ->  handler  ->  record  ->  reply
//
// Read in this order: [Store] is all that a store promises (a compare-and-swap of one [Entry], with a
// clock). The transition table in transition.go says what every act may do to what stands. [Claims] is the
// verbs over a Store. [Executor.Do] puts them around an operation: claim, run under a lease kept alive,
// record, reply.
//
//	executor, err := retrysafe.New(memstore.New(nil), nil)
//	...
//	key := retrysafe.Key{Scope: "tenant-7", Name: "order-1001"}
//	result, err := executor.Do(ctx, key, retrysafe.FingerprintOf(order), func(ctx context.Context) ([]byte, error) {
//		return charge(ctx, order)
//	})
//
// Where the promise ends, the system says so: when a process died between acting and recording, the outcome
// is unknown, it is held under its key, and a person or a recovery function decides. An operation that says
// when it acts ([Act]) narrows that to where it may have. docs/guarantees.md says for each mode what is promised
// and where it ends.
//
// The package imports the standard library only and starts no goroutine by construction: [Executor.Run]
// runs what has to run beside the operations.
package retrysafe
