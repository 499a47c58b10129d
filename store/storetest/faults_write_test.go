package storetest_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Cases that many faults break beside the one that names them.
const (
	randomRun  = "a long random run agrees with a model"
	vanishing  = "an entry that vanished between two calls is absent"
	createLate = "create sent again after another's write is refused"
	swapLate   = "swap sent again after another's write is refused"
	deleteLate = "delete sent again spares what was created since"
	reuse      = "what a reader changes reaches nobody else"
	refusal    = "a refused caller is shown the whole entry"
	between    = "stamps lie between the clock before and after"
	afterwards = "a create is stamped later than what was deleted before it"
	creators   = "of many creators one wins and all others see it"
	enders     = "of many swaps and deletes of one Rev one takes place"
	writers    = "many writers over few IDs lose nothing"
	cutOff     = "a write cut off by its context is whole or absent and may be sent again"
	hidden     = "nobody is told of a write before it is durable"
	stuck      = "a stalled disk keeps nobody beyond its context"
)

// everything stands for all cases: some faults leave hardly any whole.
var everything = []string{"everything"}

var writeFaults = []fault{
	{"create writes nothing", "create writes where nothing stands", everything, createNothing},
	{"swap writes nothing", "swap writes over the old Rev", everything, swapNothing},
	{"delete removes nothing", "delete removes the old Rev", everything, deleteNothing},
	{"create overwrites", "create leaves what stands and returns it", []string{createLate, refusal, reuse, vanishing, randomRun, creators, writers, hidden}, createOverwrites},
	{"create answers with what was sent", "create leaves what stands and returns it", []string{createLate, refusal, vanishing, randomRun, creators, writers, hidden}, createEchoes},
	{"create sent again is refused", "create sent again is recognised", []string{randomRun, cutOff}, createForgets},
	{"create sent again is stamped anew", "create sent again is recognised", []string{randomRun, hidden}, createRepeats},
	{"create with a Rev once seen is OK", createLate, []string{randomRun}, createRemembers},
	{"swap ignores the old Rev", "swap leaves any other Rev and returns what stands", []string{swapLate, refusal, randomRun, enders, writers, hidden}, swapOverwrites},
	{"swap sent again is refused", "swap sent again is recognised", []string{randomRun, cutOff}, swapForgets},
	{"swap creates", "swap writes nothing where nothing stands", []string{swapLate, vanishing, randomRun, enders, hidden}, swapCreates},
	{"delete ignores the old Rev", "delete leaves any other Rev and returns what stands", []string{deleteLate, refusal, randomRun, enders}, deleteAnyway},
	{"delete of nothing is refused", "delete of what is absent is OK", []string{vanishing, randomRun, enders, cutOff}, deleteForgets},

	{"body is cut", "bodies come back byte for byte", []string{refusal, "pages of large bodies miss nothing"}, bodyCut},
	{"scope is folded to lower case", "scopes come back byte for byte", []string{refusal, "list selects by scope byte for byte"}, scopeFolded},
	{"display is trimmed", "displays come back byte for byte", []string{refusal, "list selects by prefix of display byte for byte"}, displayTrimmed},
	{"display is cut", "displays come back byte for byte", []string{refusal}, displayCut},
	{"times are kept in milliseconds", "states, numbers and times come back exactly", []string{"list selects what is due"}, timesCoarse},
	{"epoch is kept as a float", "states, numbers and times come back exactly", nil, epochFloat},
	{"ID ends at its last byte but one", "IDs are told apart by every bit", nil, idCut},
	{"what is written shares the caller's memory", "a caller may reuse its body", []string{reuse}, bodyShared},

	{"stamps count nanoseconds", "stamps are whole microseconds", nil, stampsFine},
	{"stamps run backwards", "stamps never run backwards for one ID", []string{between, afterwards, "a caller's stamp is ignored"}, stampsBack},
	{"stamps repeat within a tick", afterwards, nil, stampsCoarse},
	{"the caller's stamp is kept", "a caller's stamp is ignored", nil, stampKept},
	{"the clock is in another unit", "the clock keeps pace with time", nil, clockFast},

	{"one lock for each process", creators, []string{writers, hidden}, createLooksFirst},
	{"swap looks first and writes then", writers, []string{enders, hidden}, swapLooksFirst},
	{"a write is shown in two steps", "readers see whole entries and never an older one again", []string{creators, enders, writers}, shownInParts},
	{"a cut off write leaves a part", cutOff, nil, partLeft},
	{"what was written is said not to be", "not written means not written", nil, writtenAnyway},
	{"acknowledged before it is durable", "what was acknowledged survives a crash", []string{hidden, stuck}, neverSynced},
	{"visible before it is durable", hidden, nil, shownEarly},
	{"a stalled disk holds its callers", stuck, nil, syncForEver},
}

func createNothing(f *faulty) {
	f.create = func(ctx context.Context, e entry) (reply, error) {
		e.Stamp = microseconds()
		return reply{Entry: e, Found: true, OK: true, Now: e.Stamp}, ctx.Err()
	}
}

func swapNothing(f *faulty) {
	f.swap = func(ctx context.Context, _ retrysafe.Rev, e entry) (reply, error) {
		e.Stamp = microseconds()
		return reply{Entry: e, Found: true, OK: true, Now: e.Stamp}, ctx.Err()
	}
}

func deleteNothing(f *faulty) {
	f.remove = func(ctx context.Context, _ retrysafe.ID, _ retrysafe.Rev) (reply, error) {
		return reply{OK: true, Now: microseconds()}, ctx.Err()
	}
}

func createOverwrites(f *faulty) {
	f.create = func(ctx context.Context, e entry) (reply, error) {
		return f.update(ctx, e.ID, func(rep *reply) (bool, *entry) {
			rep.OK = rep.Found && rep.Entry.Rev == e.Rev
			return !rep.OK, &e
		})
	}
}

func createEchoes(f *faulty) {
	f.create = func(ctx context.Context, e entry) (reply, error) {
		rep, err := f.engine.Create(ctx, e)
		if !rep.OK {
			rep.Entry = e
		}
		return rep, err
	}
}

func createForgets(f *faulty) {
	f.create = func(ctx context.Context, e entry) (reply, error) {
		return f.update(ctx, e.ID, func(rep *reply) (bool, *entry) { return !rep.Found, &e })
	}
}

func createRepeats(f *faulty) {
	f.create = func(ctx context.Context, e entry) (reply, error) {
		return f.update(ctx, e.ID, func(rep *reply) (bool, *entry) { return !rep.Found || rep.Entry.Rev == e.Rev, &e })
	}
}

func createRemembers(f *faulty) {
	var written sync.Map
	f.create = func(ctx context.Context, e entry) (reply, error) {
		rep, err := f.engine.Create(ctx, e)
		if _, before := written.Load(e.Rev); before {
			rep.OK = true
		}
		if rep.OK {
			written.Store(e.Rev, true)
		}
		return rep, err
	}
}

func swapOverwrites(f *faulty) {
	f.swap = func(ctx context.Context, _ retrysafe.Rev, e entry) (reply, error) {
		return f.update(ctx, e.ID, func(rep *reply) (bool, *entry) {
			rep.OK = rep.Found && rep.Entry.Rev == e.Rev
			return rep.Found && !rep.OK, &e
		})
	}
}

func swapForgets(f *faulty) {
	f.swap = func(ctx context.Context, old retrysafe.Rev, e entry) (reply, error) {
		return f.update(ctx, e.ID, func(rep *reply) (bool, *entry) { return rep.Found && rep.Entry.Rev == old, &e })
	}
}

func swapCreates(f *faulty) {
	f.swap = func(ctx context.Context, old retrysafe.Rev, e entry) (reply, error) {
		rep, err := f.engine.Swap(ctx, old, e)
		if err == nil && !rep.Found {
			return f.engine.Create(ctx, e)
		}
		return rep, err
	}
}

func deleteAnyway(f *faulty) {
	f.remove = func(ctx context.Context, id retrysafe.ID, _ retrysafe.Rev) (reply, error) {
		return f.force(ctx, id, nil)
	}
}

func deleteForgets(f *faulty) {
	f.remove = func(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (reply, error) {
		return f.update(ctx, id, func(rep *reply) (bool, *entry) { return rep.Found && rep.Entry.Rev == old, nil })
	}
}

func bodyCut(f *faulty) {
	f.writing(func(e entry) entry { e.Body = e.Body[:min(len(e.Body), 1<<16-1)]; return e })
}

func scopeFolded(f *faulty) {
	f.writing(func(e entry) entry { e.Scope = strings.ToLower(e.Scope); return e })
}

func displayTrimmed(f *faulty) {
	f.writing(func(e entry) entry { e.Display = strings.TrimRight(e.Display, " "); return e })
}

func displayCut(f *faulty) {
	f.writing(func(e entry) entry { e.Display = e.Display[:min(len(e.Display), 255)]; return e })
}

func timesCoarse(f *faulty) {
	f.writing(func(e entry) entry { e.Due = e.Due.Truncate(time.Millisecond); return e })
}

func epochFloat(f *faulty) {
	f.writing(func(e entry) entry { e.Epoch = int64(float64(e.Epoch)); return e })
}

func idCut(f *faulty) {
	f.key = func(id retrysafe.ID) retrysafe.ID { id[31] = 0; return id }
}

// bodyShared shows each reader what its writer's memory holds by then.
func bodyShared(f *faulty) {
	var bodies sync.Map
	f.writing(func(e entry) entry { bodies.Store(e.Rev, e.Body); return e })
	f.get = func(ctx context.Context, ids ...retrysafe.ID) ([]entry, time.Time, error) {
		found, now, err := f.engine.Get(ctx, ids...)
		for i := range found {
			if body, ok := bodies.Load(found[i].Rev); ok {
				found[i].Body = bytes.Clone(body.([]byte))
			}
		}
		return found, now, err
	}
}

func stampsFine(f *faulty) { f.clock = time.Now }

func stampsBack(f *faulty) {
	f.stamp = func(s *engine, e entry) time.Time {
		return laterThanAny(s, e).Add(-time.Millisecond * time.Duration(e.Rev[0]%2))
	}
}

func stampsCoarse(f *faulty) {
	f.clock = func() time.Time { return time.Now().Truncate(2 * time.Millisecond) }
	f.stamp = func(s *engine, _ entry) time.Time { return s.now() }
}

func stampKept(f *faulty) {
	f.stamp = func(s *engine, e entry) time.Time {
		if later := laterThanAny(s, e); later.After(e.Stamp) {
			return later
		}
		return e.Stamp
	}
}

func clockFast(f *faulty) {
	began := microseconds()
	f.clock = func() time.Time { return began.Add(1000 * time.Since(began).Truncate(time.Microsecond)) }
}

// createLooksFirst has a lock that keeps out the callers of this handle only.
func createLooksFirst(f *faulty) {
	var mu sync.Mutex
	f.create = func(ctx context.Context, e entry) (reply, error) {
		mu.Lock()
		defer mu.Unlock()
		rep, err := f.look(ctx, e)
		if err != nil || rep.Found {
			return rep, err
		}
		<-time.After(time.Millisecond)
		return f.force(ctx, e.ID, &e)
	}
}

func swapLooksFirst(f *faulty) {
	f.swap = func(ctx context.Context, old retrysafe.Rev, e entry) (reply, error) {
		rep, err := f.look(ctx, e)
		if err != nil || !rep.Found || rep.Entry.Rev != old {
			return rep, err
		}
		<-time.After(time.Millisecond)
		return f.force(ctx, e.ID, &e)
	}
}

func shownInParts(f *faulty) {
	f.commit = func(ctx context.Context, s *engine, id retrysafe.ID, e *entry) error {
		if err := s.disk.ready(ctx); err != nil {
			return fmt.Errorf("%w: %w", retrysafe.ErrNotWritten, err)
		}
		if standing, found := s.entries[id]; found && e != nil {
			part := *e
			part.Body = standing.Body
			s.show(id, &part)
			s.release()
			for range 100 { // somebody looks
				runtime.Gosched()
			}
			<-s.lock
		}
		return syncThenShow(context.WithoutCancel(ctx), s, id, e)
	}
}

func partLeft(f *faulty) {
	f.create = func(ctx context.Context, e entry) (reply, error) {
		if ctx.Err() == nil {
			return f.engine.Create(ctx, e)
		}
		part := e
		part.Body = nil
		if _, err := f.engine.Create(context.WithoutCancel(ctx), part); err != nil {
			return reply{}, err
		}
		return reply{}, ctx.Err()
	}
}

func writtenAnyway(f *faulty) {
	f.create = func(ctx context.Context, e entry) (reply, error) {
		if ctx.Err() == nil {
			return f.engine.Create(ctx, e)
		}
		if rep, err := f.engine.Create(context.WithoutCancel(ctx), e); err != nil {
			return rep, err
		}
		return reply{}, fmt.Errorf("create: %w: %w", retrysafe.ErrNotWritten, ctx.Err())
	}
}

func neverSynced(f *faulty) {
	f.commit = func(_ context.Context, s *engine, id retrysafe.ID, e *entry) error {
		s.show(id, e)
		return nil
	}
}

func shownEarly(f *faulty) {
	f.commit = func(ctx context.Context, s *engine, id retrysafe.ID, e *entry) error {
		s.show(id, e)
		s.release()
		defer func() { <-s.lock }()
		if err := s.disk.ready(ctx); err != nil {
			return err
		}
		s.disk.put(id, e)
		return nil
	}
}

func syncForEver(f *faulty) {
	f.commit = func(ctx context.Context, s *engine, id retrysafe.ID, e *entry) error {
		return syncThenShow(context.WithoutCancel(ctx), s, id, e)
	}
}
