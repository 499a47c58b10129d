package retrysafe_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A model of one key, small enough to be believed. It decides by the matrix that is written by hand beside the tests
// of the table, and by clocks; it knows no store, no Rev and no code of the core.

// A cell is one entry of the matrix.
type cell struct {
	allowed, force, fence, write bool
	verdict                      string
	to                           string
}

// cellsByName is the matrix by situation and verb.
var cellsByName = func() map[string]map[string]cell {
	lines := strings.Split(strings.TrimSpace(retrysafe.Matrix), "\n")
	verbs := strings.Fields(lines[0])
	m := map[string]map[string]cell{}
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		m[words[0]] = map[string]cell{}
		for i, word := range words[1:] {
			m[words[0]][verbs[i]] = parseCell(word)
		}
	}
	return m
}()

func parseCell(s string) (c cell) {
	if s == "-" {
		return c
	}
	c.allowed = true
	s, c.force = strings.CutSuffix(s, "*")
	s, c.fence = strings.CutSuffix(s, "!")
	c.verdict, c.to, c.write = strings.Cut(s, ">")
	return c
}

// A keyModel is what should stand under a key. Its zero value is nothing.
type keyModel struct {
	state    string // as State.String says it; "" is absent
	stamp    time.Time
	due, ttl time.Duration
	policy   retrysafe.Policy
	fp       retrysafe.Fingerprint
	owner    int       // who may write; 0: nobody
	asks     bool      // it asks what became of another's operation
	acted    bool      // the operation may have, since the key was last free
	heard    time.Time // the operation's own owner, last
	epoch    int64
	answer   string
	kept     bool // there is an answer
	attempts int
	replays  int
	acts     int
}

// situation is the row of the matrix.
func (m *keyModel) situation(now time.Time) string {
	age := now.Sub(m.stamp)
	end := m.policy.OnLeaseEnd.String()
	switch {
	case m.state == "":
		return "absent"
	case m.ttl > 0 && age >= m.ttl:
		return "memory_over"
	case m.state == "free":
		return "free"
	case m.state == "in_flight" && age < m.due:
		return "live"
	case m.state == "in_flight" && m.policy.TwoStep && !m.acted:
		return "lapsed_unacted"
	case m.state == "in_flight":
		return "lapsed_" + end
	case m.state == "unknown" && end == "recover":
		return "held_recover"
	case m.state == "unknown":
		return "held"
	case m.state == "expired" || age >= m.due:
		return "retention_over"
	case m.state == "completed":
		return "completed"
	}
	return "failed"
}

// compared tells whether the fingerprint matters.
func (m *keyModel) compared(now time.Time) bool {
	s := m.situation(now)
	return s != "absent" && s != "free" && s != "memory_over" && s != "lapsed_unacted"
}

func (m *keyModel) memory() time.Duration {
	return max(m.policy.Retention+m.policy.Remember, time.Microsecond)
}

// claimed is the key after a claim that took it, and was to be told so by verdict.
func (m *keyModel) claimed(owner int, verdict string, p retrysafe.Policy, fp retrysafe.Fingerprint, now time.Time) {
	heard := now
	if verdict == "recovering" {
		heard = m.heard
	}
	*m = keyModel{state: "in_flight", stamp: now, due: p.Lease, policy: p, fp: fp, owner: owner, attempts: m.attempts + 1, acts: m.acts,
		asks: verdict == "recovering", acted: verdict != "won", heard: heard}
}

// became is the key after any other write of the matrix. answer is what completes it.
func (m *keyModel) became(to string, fence bool, now time.Time, answer string, kept bool) {
	age := now.Sub(m.stamp)
	was := *m
	m.state, m.stamp, m.answer, m.kept = to, now, "", false
	switch to {
	case "absent":
		*m = keyModel{}
		if was.acts > 0 && was.state != "" && !was.over(age) {
			was.state, was.stamp, was.answer, was.kept = "free", now, "", false
			was.due, was.ttl = was.memory(), was.memory()
			if fence {
				was.owner = 0
			}
			*m = was
		}
		return
	case "in_flight":
		m.due, m.ttl = m.policy.Lease, 0
	case "unknown":
		m.due, m.ttl = 0, 0
	case "completed", "unknown_answered":
		m.due, m.ttl, m.answer, m.kept = m.policy.Retention, m.memory(), answer, kept
	case "free":
		m.due, m.ttl = m.memory(), m.memory()
	case "expired":
		m.ttl = max(was.ttl-age, time.Microsecond)
		m.due = m.ttl
	}
	if fence {
		m.owner = 0
	}
}

func (m *keyModel) over(age time.Duration) bool { return m.ttl > 0 && age >= m.ttl }

// wrote takes in that the owner wrote something of its own.
func (m *keyModel) wrote(verb string, now time.Time) {
	m.acted = m.acted || verb == "act"
	if !m.asks {
		m.heard = now
	}
}

// rewritten is the key written again with nothing changed but the stamp: its times end when they did.
func (m *keyModel) rewritten(now time.Time) {
	age := now.Sub(m.stamp)
	m.stamp, m.due = now, max(m.due-age, 0)
	if m.ttl > 0 {
		m.ttl = max(m.ttl-age, time.Microsecond)
	}
}

// boundaries are the moments at which something becomes of the key by itself.
func (m *keyModel) boundaries() (at []time.Time) {
	if m.state != "" && m.due > 0 {
		at = append(at, m.stamp.Add(m.due))
	}
	if m.ttl > 0 {
		at = append(at, m.stamp.Add(m.ttl))
	}
	return at
}

// coverage counts which cells of the matrix were walked, and which were tried in vain.
type coverage map[string]int

func (c coverage) walked(situation, verb string)  { c[situation+" "+verb]++ }
func (c coverage) refused(situation, verb string) { c["refused: "+situation+" "+verb]++ }

// missing is what the matrix holds and nobody tried: every edge walked, every other cell tried, and tried without
// force where force is needed.
func (c coverage) missing() (all []string) {
	for situation, verbs := range cellsByName {
		for verb, cell := range verbs {
			if cell.allowed && c[situation+" "+verb] == 0 {
				all = append(all, fmt.Sprintf("%s on %s never walked", verb, situation))
			}
			if (!cell.allowed || cell.force) && c["refused: "+situation+" "+verb] == 0 {
				all = append(all, fmt.Sprintf("%s on %s never tried in vain", verb, situation))
			}
		}
	}
	return all
}
