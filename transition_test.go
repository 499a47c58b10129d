package retrysafe

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The transition table against a second one, written by hand, and against the page that shows it.

// Matrix is what every verb does to everything that may stand. A cell is the verdict of a claim, then > and the state
// that comes of it; ! is a new epoch, by which whoever owned the key is fenced; * is only with force; - is forbidden.
const Matrix = `
	                claim                   extend     act        complete    fail               hold      release  sweep       happened      did_not_happen forget
	absent          won>in_flight!          -          -          -           -                  -         -        -           -             -              -
	free            won>in_flight!          -          -          -           -                  -         -        -           -             -              >free!
	memory_over     won>in_flight!          -          -          -           -                  -         -        >absent     -             -              -
	live            busy                    >in_flight >in_flight >completed  >unknown_answered  >unknown  >absent  -           >completed!*  >free!*        >free!*
	lapsed_unacted  won>in_flight!          >in_flight >in_flight >completed  >unknown_answered  >unknown  >absent  >absent!    >completed!   >free!         >free!
	lapsed_hold     outcome_unknown>unknown >in_flight >in_flight >completed  >unknown_answered  >unknown  >absent  >unknown    >completed!   >free!         >free!
	lapsed_rerun    took_over>in_flight!    >in_flight >in_flight >completed  >unknown_answered  >unknown  >absent  -           >completed!   >free!         >free!
	lapsed_recover  recovering>in_flight!   >in_flight >in_flight >completed  >unknown_answered  >unknown  >absent  -           >completed!   >free!         >free!
	held            outcome_unknown         -          -          >completed  >unknown_answered  >unknown  >absent  -           >completed!   >free!         >free!
	held_recover    recovering>in_flight!   -          -          >completed  >unknown_answered  >unknown  >absent  -           >completed!   >free!         >free!
	completed       replay                  -          -          -           -                  -         -        -           >completed!*  >free!*        >free!*
	failed          replay                  -          -          -           -                  -         -        -           >completed!   >free!         >free!
	retention_over  expired                 -          -          -           -                  -         -        >expired    -             -              >free!`

// matrixColumns and matrixRows are the order of the matrix.
var (
	matrixColumns = []verb{claim, extend, act, complete, fail, hold, release, sweep, resolveDone, resolveUndone, forget}
	matrixRows    = []situation{none, free, over, live, lapsedUnacted, lapsedHold, lapsedRerun, lapsedRecover, held, heldRecover, done, failed, past}
)

// cells is the matrix by situation and verb.
func cells(t *testing.T) (m [situations][verbs]string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(Matrix), "\n")[1:]
	if len(lines) != int(situations) || len(matrixRows) != int(situations) || len(matrixColumns) != int(verbs) {
		t.Fatalf("the matrix has %d rows, want all %d situations, and all %d verbs", len(lines), situations, verbs)
	}
	for i, line := range lines {
		words := strings.Fields(line)[1:]
		if len(words) != int(verbs) {
			t.Fatalf("row %q has %d cells, want %d", line, len(words), verbs)
		}
		for j, cell := range words {
			m[matrixRows[i]][matrixColumns[j]] = cell
		}
	}
	return m
}

// cell is e as the matrix writes it.
func (e *edge) cell() string {
	if e == nil {
		return "-"
	}
	var b strings.Builder
	if e.verdict != 0 {
		b.WriteString(e.verdict.String())
	}
	if e.write {
		b.WriteString(">" + e.to.String())
	}
	if e.fence {
		b.WriteString("!")
	}
	if e.force {
		b.WriteString("*")
	}
	return b.String()
}

func TestTableIsTheMatrix(t *testing.T) {
	want := cells(t)
	for s := range situations {
		for v := range verbs {
			if got := decide(s, v).cell(); got != want[s][v] {
				t.Errorf("%s, %s: %s, want %s", situationNames[s], verbNames[v], got, want[s][v])
			}
		}
	}
}

// TestTableIsUnambiguous: two rows for one situation and verb would let the order of the rows decide.
func TestTableIsUnambiguous(t *testing.T) {
	seen := map[[2]int]int{}
	for i, e := range table {
		if len(e.from) == 0 {
			t.Errorf("row %d begins nowhere", i)
		}
		for _, from := range e.from {
			at := [2]int{int(from), int(e.verb)}
			if before, known := seen[at]; known {
				t.Errorf("rows %d and %d both say what %s does to %s", before, i, verbNames[e.verb], situationNames[from])
			}
			seen[at] = i
		}
	}
}

// TestTableIsComplete: a claim is answered whatever stands, by one verdict, and every state and verdict is reached.
func TestTableIsComplete(t *testing.T) {
	reached, said := map[State]bool{}, map[Verdict]bool{Mismatch: true} // the fingerprint says it, before the table is asked
	for s := range situations {
		for v := range verbs {
			e := decide(s, v)
			switch {
			case v == claim && (e == nil || e.verdict == 0):
				t.Errorf("a claim of %s has no answer", situationNames[s])
			case e == nil:
				continue
			case v != claim && (e.verdict != 0 || !e.write):
				t.Errorf("%s on %s: a verdict, or no write", verbNames[v], situationNames[s])
			case !e.write && (e.to != Absent || e.fence || e.force):
				t.Errorf("%s on %s changes nothing, and says what it changes", verbNames[v], situationNames[s])
			}
			if e.write {
				reached[e.to] = true
			}
			said[e.verdict] = true
		}
	}
	for s := Absent; s < Reserved; s++ {
		if !reached[s] {
			t.Errorf("no row leads to %v", s)
		}
	}
	for v := Won; v <= Expired; v++ {
		if !said[v] {
			t.Errorf("no claim is answered %v", v)
		}
	}
}

// TestWhoFences: a claim that takes the key, an operator's decision, and the sweeper where it releases what had not
// acted. Never the owner, never the end of a lease by itself: a late owner may still complete.
func TestWhoFences(t *testing.T) {
	for _, e := range table {
		takes := e.verb == claim && e.write && e.to == InFlight
		decides := e.verb == resolveDone || e.verb == resolveUndone || e.verb == forget
		frees := e.verb == sweep && slices.Contains(e.from, lapsedUnacted)
		if want := takes || decides || frees; e.fence != want {
			t.Errorf("%s to %v: fences %v, want %v", verbNames[e.verb], e.to, e.fence, want)
		}
	}
}

// TestWhatNeedsForce: an operator against a live lease or a kept answer, nothing else.
func TestWhatNeedsForce(t *testing.T) {
	for _, e := range table {
		for _, from := range e.from {
			operator := e.verb == resolveDone || e.verb == resolveUndone || e.verb == forget
			if want := operator && (from == live || from == done); e.force != want {
				t.Errorf("%s on %s: needs force %v, want %v", verbNames[e.verb], situationNames[from], e.force, want)
			}
		}
	}
}

// TestComparedWhereSomethingIsBound: whatever remembers an operation remembers which.
func TestComparedWhereSomethingIsBound(t *testing.T) {
	for s := range situations {
		if want := !slices.Contains([]situation{none, free, over, lapsedUnacted}, s); s.compared() != want {
			t.Errorf("%s: fingerprint compared %v, want %v", situationNames[s], s.compared(), want)
		}
	}
}

func TestMeet(t *testing.T) {
	const due, ttl, tick = time.Hour, 3 * time.Hour, time.Microsecond
	tests := []struct {
		state  State
		policy LeaseEnd
		age    time.Duration
		want   situation
	}{
		{Free, Hold, 0, free}, {Free, Hold, ttl - tick, free}, {Free, Hold, ttl, over},
		{InFlight, Hold, 0, live}, {InFlight, Recover, due - tick, live},
		{InFlight, Hold, due, lapsedHold}, {InFlight, Rerun, due, lapsedRerun}, {InFlight, Recover, due, lapsedRecover},
		{Completed, Recover, 0, done}, {Completed, Hold, due - tick, done}, {Completed, Hold, due, past},
		{Completed, Hold, ttl - tick, past}, {Completed, Hold, ttl, over},
		{UnknownAnswered, Recover, 0, failed}, {UnknownAnswered, Hold, due - tick, failed}, {UnknownAnswered, Hold, due, past},
		{UnknownAnswered, Hold, ttl, over},
		{Tombstone, Hold, 0, past}, {Tombstone, Recover, ttl - tick, past}, {Tombstone, Hold, ttl, over},
	}
	stamp := time.UnixMicro(1 << 50)
	for _, tt := range tests {
		e := Entry{State: tt.state, Stamp: stamp, Due: due, TTL: ttl}
		if got := meet(&e, &record{policy: Policy{OnLeaseEnd: tt.policy}}, stamp.Add(tt.age)); got != tt.want {
			t.Errorf("%v, %v, at age %v: %s, want %s", tt.state, tt.policy, tt.age, situationNames[got], situationNames[tt.want])
		}
	}
	for _, policy := range []LeaseEnd{Hold, Rerun, Recover} { // held for ever
		e := Entry{State: Unknown, Stamp: stamp}
		want := held
		if policy == Recover {
			want = heldRecover
		}
		for _, rec := range []record{{}, {acted: true}, {policy: Policy{TwoStep: true}}, {policy: Policy{TwoStep: true}, acted: true}} {
			rec.policy.OnLeaseEnd = policy
			if got := meet(&e, &rec, stamp.Add(200*365*24*time.Hour)); got != want {
				t.Errorf("unknown, %v, two-step %v, acted %v: %s, want %s", policy, rec.policy.TwoStep, rec.acted, situationNames[got], situationNames[want])
			}
		}
	}
}

// TestMeetTheMark: it counts once the lease is over, and under a two-step policy alone.
func TestMeetTheMark(t *testing.T) {
	byPolicy := []situation{lapsedHold, lapsedRerun, lapsedRecover}
	for _, policy := range []LeaseEnd{Hold, Rerun, Recover} {
		tests := []struct {
			twoStep, acted, orphan bool
			age                    time.Duration
			want                   situation
		}{
			{true, false, false, time.Hour - 1, live},
			{true, false, false, time.Hour, lapsedUnacted},
			{true, false, true, 0, lapsedUnacted},
			{true, true, false, time.Hour - 1, live},
			{true, true, false, time.Hour, byPolicy[policy]},
			{true, true, true, 0, byPolicy[policy]},
			{false, false, false, time.Hour, byPolicy[policy]},
			{false, false, true, 0, byPolicy[policy]},
		}
		for _, tt := range tests {
			stamp := time.UnixMicro(1 << 50)
			e := Entry{State: InFlight, Stamp: stamp, Due: time.Hour, Orphan: tt.orphan}
			rec := record{policy: Policy{OnLeaseEnd: policy, TwoStep: tt.twoStep}, acted: tt.acted}
			if got := meet(&e, &rec, stamp.Add(tt.age)); got != tt.want {
				t.Errorf("%v, %+v: %s, want %s", policy, tt, situationNames[got], situationNames[tt.want])
			}
		}
	}
}

func TestNextEpoch(t *testing.T) {
	now := time.UnixMicro(1000)
	for _, tt := range []struct{ before, want int64 }{{0, 1000}, {999, 1000}, {1000, 1001}, {5000, 5001}, {-1, 1000}} {
		if got := nextEpoch(tt.before, now); got != tt.want {
			t.Errorf("nextEpoch(%d) at 1000 is %d, want %d", tt.before, got, tt.want)
		}
	}
}

var update = flag.Bool("update", false, "write the transition table into docs/protocol.md")

const (
	protocolPage = "docs/protocol.md"
	tableBegin   = "<!-- table:begin -->\n"
	tableEnd     = "<!-- table:end -->"
)

// TestProtocolPage: readers of docs/protocol.md see the table that runs.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatalf("%v: write the page, with the lines %q and %q where the table belongs", err, tableBegin, tableEnd)
	}
	before, rest, begun := bytes.Cut(page, []byte(tableBegin))
	shown, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !begun || !ended {
		t.Fatalf("%s has no lines %q and %q: put them where the table belongs", protocolPage, tableBegin, tableEnd)
	}
	want := rendered()
	if string(shown) == want {
		return
	}
	if !*update {
		t.Fatalf("%s shows another table than the one that runs: go test -run %s -update .\n%s", protocolPage, t.Name(), want)
	}
	page = slices.Concat(before, []byte(tableBegin+want+tableEnd), after)
	if err := os.WriteFile(protocolPage, page, 0o644); err != nil {
		t.Fatalf("update: %v", err)
	}
}

// rendered is the table as Markdown, a row for each edge.
func rendered() string {
	var b strings.Builder
	b.WriteString("| what stands | act | becomes | fences | a claim is told |\n|---|---|---|---|---|\n")
	for _, e := range table {
		act, becomes, fences, told := verbNames[e.verb], "as it was", "", ""
		if e.force {
			act += ", only with force"
		}
		if e.write {
			becomes = "`" + e.to.String() + "`"
		}
		if e.verb == release || e.verb == sweep && e.fence {
			becomes += ", or `free` where it has a history"
		}
		if e.fence {
			fences = "yes"
		}
		if e.verdict != 0 {
			told = "`" + e.verdict.String() + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", fromNames(e.from), act, becomes, fences, told)
	}
	return b.String()
}

// fromNames is where an edge begins, with what all policies have in common said once.
func fromNames(from []situation) string {
	var names []string
	for _, group := range []struct {
		of   []situation
		name string
	}{
		{append([]situation{live}, lapsed...), "InFlight, lease live or over"},
		{lapsed, "InFlight, lease over"},
		{[]situation{held, heldRecover}, "Unknown without answer"},
	} {
		if !slices.ContainsFunc(group.of, func(s situation) bool { return !slices.Contains(from, s) }) {
			names = append(names, group.name)
			from = slices.DeleteFunc(slices.Clone(from), func(s situation) bool { return slices.Contains(group.of, s) })
		}
	}
	for _, s := range from {
		names = append(names, situationNames[s])
	}
	return strings.Join(names, "; ")
}
