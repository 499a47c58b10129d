//go:build mutants

package mutants

// Faults of the memory store.

const (
	memstore = "store/memstore"
	suite    = "TestStore/every answer arrives/" // of store/storetest
)

var storeMutants = []mutant{
	{
		fault: "create writes over what stands",
		seen:  "CC-1: ikyriak/IdempotentAPI#23",
		file:  "store/memstore/memstore.go",
		old:   `if standing := sh.entries[e.ID]; standing != none {`,
		new:   `if standing := sh.entries[e.ID]; standing.is(e.Rev) {`,
		pkg:   memstore, test: suite + "create leaves what stands and returns it",
	},
	{
		fault: "create does not know its own write again",
		seen:  "redis/go-redis#2985",
		file:  "store/memstore/memstore.go",
		old:   `standing, standing.is(e.Rev)), true`,
		new:   `standing, false), true`,
		pkg:   memstore, test: suite + "create sent again is recognised",
	},
	{
		fault: "create takes another's write for its own",
		file:  "store/memstore/memstore.go",
		old:   `standing, standing.is(e.Rev)), true`,
		new:   `standing, true), true`,
		pkg:   memstore, test: suite + "of many creators one wins and all others see it",
	},
	{
		fault: "swap does not ask what it replaces",
		seen:  "CC-4: aws-powertools/powertools-lambda-typescript#5714",
		file:  "store/memstore/memstore.go",
		old:   "if !standing.is(old) {\n\t\treturn sh.refusal(e.ID,",
		new:   "if standing == none {\n\t\treturn sh.refusal(e.ID,",
		pkg:   memstore, test: suite + "swap leaves any other Rev and returns what stands",
	},
	{
		fault: "swap writes where nothing stands",
		file:  "store/memstore/memstore.go",
		old:   "if !standing.is(old) {\n\t\treturn sh.refusal(e.ID,",
		new:   "if standing != none && !standing.is(old) {\n\t\treturn sh.refusal(e.ID,",
		pkg:   memstore, test: suite + "swap writes nothing where nothing stands",
	},
	{
		fault: "swap does not know its own write again",
		seen:  "redis/go-redis#2985",
		file:  "store/memstore/memstore.go",
		old:   `standing, standing.is(e.Rev)), nil`,
		new:   `standing, false), nil`,
		pkg:   memstore, test: suite + "swap sent again is recognised",
	},
	{
		fault: "an outcome finds no place in a full store",
		file:  "store/memstore/memstore.go",
		old:   "\ts.bytes.Add(size(itemLen(&e)) - size(len(standing)))\n",
		new:   "\tif s.bytes.Add(size(itemLen(&e))-size(len(standing))) > s.maxBytes {\n\t\treturn retrysafe.Reply{}, notWritten(ErrFull)\n\t}\n",
		pkg:   memstore, test: "TestOutcomeFindsItsPlaceInAFullStore",
	},
	{
		fault: "delete does not ask what it removes",
		seen:  "CC-5: aws-powertools/powertools-lambda-typescript#5675",
		file:  "store/memstore/memstore.go",
		old:   "if !standing.is(old) {\n\t\treturn sh.refusal(id,",
		new:   "if standing == none {\n\t\treturn sh.refusal(id,",
		pkg:   memstore, test: suite + "delete sent again spares what was created since",
	},
	{
		fault: "delete of what is gone is not OK",
		file:  "store/memstore/memstore.go",
		old:   `sh.refusal(id, standing, standing == none)`,
		new:   `sh.refusal(id, standing, false)`,
		pkg:   memstore, test: suite + "delete of what is absent is OK",
	},
	{
		fault: "get returns an empty entry for what is absent",
		file:  "store/memstore/memstore.go",
		old:   "if standing := sh.entries[id]; standing != none {\n\t\t\tfound = append(found, standing.entry(id))\n\t\t}\n",
		new:   "if standing := sh.entries[id]; standing != none {\n\t\t\tfound = append(found, standing.entry(id))\n\t\t} else {\n\t\t\tfound = append(found, retrysafe.Entry{ID: id})\n\t\t}\n",
		pkg:   memstore, test: suite + "get returns what stands and leaves out the rest",
	},
	{
		fault: "a call does not look at its context",
		file:  "store/memstore/memstore.go",
		old:   "Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {\n\tif err := ctx.Err(); err != nil {",
		new:   "Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {\n\tif err := ctx.Err(); false {",
		pkg:   memstore, test: suite + "an ended context is an error",
	},

	// The clock.
	{
		fault: "two writes of one moment have one stamp",
		file:  "store/memstore/memstore.go",
		old:   `now = sh.last.Add(time.Microsecond)`,
		new:   `now = sh.last`,
		pkg:   memstore, test: "TestNoClockIsBehindAStamp",
	},
	{
		fault: "the clock runs behind a stamp when it is set back",
		file:  "store/memstore/memstore.go",
		old:   "\tif now.Before(sh.last) {\n\t\treturn sh.last\n\t}\n",
		new:   "",
		pkg:   memstore, test: "TestNoClockIsBehindAStamp",
	},
	{
		fault: "what is created after a deletion may be older than what was deleted",
		file:  "store/memstore/memstore.go",
		old:   "delete(sh.entries, id)\n",
		new:   "delete(sh.entries, id)\n\tsh.last = time.Time{}\n",
		pkg:   memstore, test: "TestNoClockIsBehindAStamp",
	},
	{
		fault: "the caller's stamp stands",
		seen:  "TT-5: xavierjohn/Trellis#695",
		file:  "store/memstore/memstore.go",
		old:   `sh.last, e.Stamp = now, now`,
		new:   `sh.last = now`,
		pkg:   memstore, test: suite + "a caller's stamp is ignored",
	},

	// Bounds.
	{
		fault: "a live claim gives way when the store is full",
		seen:  "TT-10: paveg/hono-idempotency#105",
		file:  "store/memstore/memstore.go",
		old:   "\ts.dropForgotten()\n",
		new:   "\ts.dropForgotten()\n" + dropAll("InFlight"),
		pkg:   memstore, test: "TestNothingRememberedGivesWay/live claim",
	},
	{
		fault: "a kept answer gives way when the store is full",
		seen:  "SO-13: triggerdotdev/trigger.dev#4046",
		file:  "store/memstore/memstore.go",
		old:   "\ts.dropForgotten()\n",
		new:   "\ts.dropForgotten()\n" + dropAll("Completed"),
		pkg:   memstore, test: "TestNothingRememberedGivesWay/kept answer",
	},
	{
		fault: "what is no longer remembered never gives way",
		file:  "store/memstore/memstore.go",
		old:   "\ts.dropForgotten()\n",
		new:   "",
		pkg:   memstore, test: "TestWhatIsNoLongerRememberedGivesWay/to a key of another shard",
	},
	{
		fault: "a key gives way with its answer",
		file:  "store/memstore/memstore.go",
		old:   `now.Sub(e.stamp()) >= e.ttl()`,
		new:   `now.Sub(e.stamp()) >= e.due()`,
		pkg:   memstore, test: "TestEachGivesWayAtItsOwnTime",
	},
	{
		fault: "room is made once and never again",
		file:  "store/memstore/memstore.go",
		old:   `s.endsAt(e.stamp().Add(e.ttl()))`,
		new:   `_ = e`,
		pkg:   memstore, test: "TestEachGivesWayAtItsOwnTime",
	},
	{
		fault: "the bytes of what is deleted are never free again",
		file:  "store/memstore/memstore.go",
		old:   "\ts.bytes.Add(-size(len(standing)))\n",
		new:   "",
		pkg:   memstore, test: "TestOutcomeFindsItsPlaceInAFullStore",
	},
	{
		fault: "the place of what is deleted is never free again",
		file:  "store/memstore/memstore.go",
		old:   "delete(sh.entries, id)\n\ts.entries.Add(-1)\n",
		new:   "delete(sh.entries, id)\n",
		pkg:   memstore, test: "TestFullStoreRefusesNewKeys/too many entries",
	},
	{
		fault: "many callers at once pass the bound",
		file:  "store/memstore/memstore.go",
		old:   "if s.entries.Add(1) > s.maxEntries {\n\t\ts.entries.Add(-1)\n\t\treturn false\n\t}",
		new:   "if s.entries.Load() >= s.maxEntries {\n\t\treturn false\n\t}\n\t<-time.After(time.Microsecond)\n\ts.entries.Add(1)",
		pkg:   memstore, test: "TestBoundHoldsForManyCallers",
	},
	{
		fault: "a full store does not say that nothing was written",
		file:  "store/memstore/memstore.go",
		old:   `notWritten(ErrFull)`,
		new:   `fmt.Errorf("memstore: %w", ErrFull)`,
		pkg:   memstore, test: "TestFullStoreRefusesNewKeys/too many entries",
	},

	// Waiters.
	{
		fault: "a waiter is not told of a swap",
		file:  "store/memstore/memstore.go",
		old:   "sh.entries[e.ID] = itemOf(&e)\n\tsh.waiting.Wake(e.ID)",
		new:   "sh.entries[e.ID] = itemOf(&e)",
		pkg:   memstore, test: "TestEveryWriteWakes/swap",
	},
	{
		fault: "a waiter is not told of a deletion",
		file:  "store/memstore/memstore.go",
		old:   "s.bytes.Add(-size(len(standing)))\n\tsh.waiting.Wake(id)",
		new:   "s.bytes.Add(-size(len(standing)))",
		pkg:   memstore, test: "TestEveryWriteWakes/delete",
	},
	{
		fault: "a waiter that hangs up is remembered for ever",
		seen:  "CC-10: gofiber/fiber#3058",
		file:  "internal/wake/wake.go",
		old:   "\tif t.count--; t.count == 0 && s.waiting[t.id] == t {\n\t\tdelete(s.waiting, t.id)\n\t}\n",
		new:   "\tt.count--\n",
		pkg:   memstore, test: "TestWaitersLeaveNothing",
	},
	{
		fault: "a waiter that hangs up takes the others with it",
		file:  "internal/wake/wake.go",
		old:   `t.count == 0 && s.waiting[t.id] == t`,
		new:   `s.waiting[t.id] == t`,
		pkg:   memstore, test: "TestWaiterWhoHangsUpLeavesTheOthers",
	},

	// Listings.
	{
		fault: "a listing leaves out the first entry of each shard",
		file:  "store/memstore/list.go",
		old:   `range found {`,
		new:   `range found[min(1, len(found)):] {`,
		pkg:   memstore, test: suite + "list with the zero query holds everything",
	},
	{
		fault: "a listing of what is due holds what is not",
		file:  "store/memstore/list.go",
		old:   `(!q.Due || page.Now.Sub(e.stamp()) >= e.due())`,
		new:   `true`,
		pkg:   memstore, test: suite + "list selects what is due",
	},
	{
		fault: "a listing by prefix finds it anywhere",
		file:  "store/memstore/list.go",
		old:   `strings.HasPrefix(e.display(), q.Prefix)`,
		new:   `strings.Contains(e.display(), q.Prefix)`,
		pkg:   memstore, test: suite + "list selects by prefix of display byte for byte",
	},
	{
		fault: "a listing of one scope holds all",
		file:  "store/memstore/list.go",
		old:   `(q.Scope == "" || e.scope() == q.Scope)`,
		new:   `true`,
		pkg:   memstore, test: suite + "list selects by scope byte for byte",
	},
	{
		fault: "a page begins with the last entry of the page before",
		file:  "store/memstore/list.go",
		old:   `last[:]) > 0`,
		new:   `last[:]) >= 0`,
		pkg:   memstore, test: suite + "what neither comes nor goes is listed exactly once",
	},
	{
		fault: "a page begins at the next shard",
		file:  "store/memstore/list.go",
		old:   `first = int(last[0] % shards)`,
		new:   `first = int(last[0]%shards) + 1`,
		pkg:   memstore, test: suite + "what neither comes nor goes is listed exactly once",
	},
	{
		fault: "a page holds more than its limit",
		file:  "store/memstore/list.go",
		old:   `len(page.Entries) >= limit || `,
		new:   ``,
		pkg:   memstore, test: suite + "list pages hold at most the limit and miss nothing",
	},
}

// dropAll is code that makes room in a memory store at the cost of the entries in one state.
func dropAll(state string) string {
	return `	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for id, standing := range sh.entries {
			if standing.state() == retrysafe.` + state + ` {
				s.drop(sh, id, standing)
			}
		}
		sh.mu.Unlock()
	}
`
}
